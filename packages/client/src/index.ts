export type { AddAllOptions } from './add-all.js';
export * from './client.js';
export * from './errors.js';
export type { Key, KeyUsage } from './key.js';
export type { LimitWindow } from './limits.js';
export type { LimitNotice } from './notices.js';
export { isPetError, type PetError } from './pet-error.js';
