export * from './client.js';
export * from './errors.js';
export type { LimitWindow } from './limits.js';
export { isPetError, type PetError } from './pet-error.js';
