-- Sends the requests of a file in turn, checks each response unless told otherwise, and prints one line of JSON for
-- load.mjs.
local requests, at, thread, isUnchecked = {}, 0, nil, false
failed = 0
statuses = {}

function setup(created)
  thread = created
end

function init(arguments)
  local file = assert(io.open(arguments[1], 'rb'))
  local length = file:read('*n')
  while length do
    file:read(1)
    requests[#requests + 1] = file:read(length)
    length = file:read('*n')
  end
  file:close()
  isUnchecked = arguments[2] == 'unchecked'
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function response(status, _, body)
  statuses[status] = (statuses[status] or 0) + 1
  if isUnchecked then return end
  if status ~= 200 or body:find('"errors":', 1, true) then failed = failed + 1 end
end

function done(summary, latency)
  local errors, counts = summary.errors, {}
  for status, count in pairs(thread:get('statuses')) do
    counts[#counts + 1] = string.format('"%d":%d', status, count)
  end
  io.write(string.format(
    '\n{"requests":%d,"failed":%d,"statuses":{%s},"socketErrors":%d,"duration":%d,"p50":%d,"p99":%d}\n',
    summary.requests, thread:get('failed'), table.concat(counts, ','), errors.connect + errors.read + errors.write + errors.timeout,
    summary.duration, latency:percentile(50), latency:percentile(99)))
end
