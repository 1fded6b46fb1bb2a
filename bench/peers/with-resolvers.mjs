// PostGraphile 5 asks for Node 22 and runs on 20 as well, but for this one function.
Promise.withResolvers ??= function withResolvers() {
  let resolve;
  let reject;
  const promise = new this((accept, refuse) => {
    resolve = accept;
    reject = refuse;
  });
  return { promise, resolve, reject };
};
