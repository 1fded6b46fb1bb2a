/** What Sandbox opens with, so that a visitor sees where the key goes and what to run. */
export const EXAMPLE_OPERATION = `# Add your API key to the Authorization header in the
# Headers pane below, after "Bearer ", then run this.
query ListPets {
  pets(limit: 5, status: AVAILABLE) {
    id
    name
    categoryId
    status
  }
}
`;

/** A place for the key. As long as nothing follows the scheme no key was sent, and the schema loads without one. */
export const EXAMPLE_HEADERS = { Authorization: 'Bearer ' };
