/** What a store does for the holder of a key, with the secret of the request. Answers become JSON. */
export interface OwnKeys {
  /** @throws StoreError `unauthorized` if the secret has ended since it was looked up */
  find(secret: string): Promise<object>;
  /** Lists what a key used by day, client and operation: the last day first, and in each the highest cost first. */
  listUsage(keyId: string, since: Date, limit: number): Promise<readonly object[]>;
  /**
   * Makes a new secret. The old one works for another day.
   * @throws StoreError `rotation_under_way` unless this is the newest secret and the one before has ended: whoever stole
   * one can neither prolong it nor lock its owner out
   */
  rotate(secret: string): Promise<object>;
}
