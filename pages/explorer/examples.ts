/** An operation that the explorer shows in its own tab when it opens. */
export interface Example {
  readonly query: string;
  readonly variables?: string;
}

/** An example for each operation of the schema, with its cost. GraphiQL names the tabs after the operations. */
export const EXAMPLES: readonly Example[] = [
  {
    query: `# Lists animals, lowest id first. For the
# next page, pass the last id as after.
# Costs 1 request.
query ListPets($after: ID) {
  pets(limit: 5, status: AVAILABLE, after: $after) {
    id
    name
    categoryId
    status
  }
}
`,
    variables: '{\n  "after": null\n}',
  },
  {
    query: `# Adds an animal. Costs 1 request.
# Write large identifiers in quotes, because
# browsers round numbers beyond 2^53.
mutation AddPet($input: NewPet!) {
  addPet(input: $input) {
    id
    name
    categoryId
    status
  }
}
`,
    variables: '{\n  "input": {\n    "name": "Rex",\n    "categoryId": "1",\n    "status": "PENDING"\n  }\n}',
  },
  {
    query: `# Deprecated: use ListPets instead.
# Costs 1 request.
query GetPet($id: ID!) {
  pet(id: $id) {
    id
    name
    status
  }
}
`,
    variables: '{\n  "id": "1"\n}',
  },
  {
    query: `# Several requests in one operation.
# Equal ones count once: costs 2.
query ListByStatus {
  available: pets(status: AVAILABLE, limit: 3) {
    ...Row
  }
  sold: pets(status: SOLD, limit: 3) {
    ...Row
  }
  soldNames: pets(status: SOLD, limit: 3) {
    name
  }
}

fragment Row on Pet {
  id
  name
}
`,
  },
  {
    query: `# What is left of the plan. Free.
query Budget {
  rateLimit {
    plan
    windows {
      seconds
      limit
      remaining
      resetAt
    }
  }
}
`,
  },
  {
    query: `# The schema describes itself. Free.
query DescribeFields {
  __type(name: "Query") {
    fields(includeDeprecated: true) {
      name
      description
      isDeprecated
      deprecationReason
    }
  }
}
`,
  },
];
