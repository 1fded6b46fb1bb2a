/** An operation that the explorer opens with, in a tab of its own. */
export interface Example {
  readonly query: string;
  readonly variables?: string;
}

/** A worked example for each operation of the schema, with what it costs. GraphiQL names the tabs after the operations. */
export const EXAMPLES: readonly Example[] = [
  {
    query: `# Lists animals, lowest id first. Costs 1 request.
# Leave the status out for animals of any status.
query ListPets($status: PetStatus, $limit: Int! = 5) {
  pets(status: $status, limit: $limit) {
    id
    name
    categoryId
    status
  }
}
`,
    variables: '{\n  "status": "AVAILABLE"\n}',
  },
  {
    query: `# Adds an animal. Every addPet costs 1 request.
# Identifiers are 64 bits wide: write them in quotes,
# since browsers round large numbers.
mutation AddPet($input: NewPet!) {
  addPet(input: $input) {
    id
    name
    categoryId
    status
  }
}
`,
    variables:
      '{\n  "input": {\n    "name": "Rex",\n    "categoryId": "9007199254740993",\n    "status": "PENDING"\n  }\n}',
  },
  {
    query: `# Deprecated: removed on 5 December 2030.
# Use ListPets with the status filter. Costs 1 request.
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
    query: `# Several requests in one operation, by aliases.
# Equal ones count once: this costs 2 requests.
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
    query: `# What is left of the key's plan. Free.
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
    query: `# The schema describes itself. Free, and needs no key
# where introspection is on.
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
