export * from './errors.js';
export type { LoadedPet, PetStatus } from './lookup-request.js';
export { createPetClient, type LoadOptions, type PetClient, type PetId } from './pet-client.js';
export type { PetClientOptions } from './pet-client-options.js';
export { PetError, type PetErrorCode } from './pet-error.js';
