import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { StoreError, toErrorBody } from '../../src/errors.js';
import type { IdempotencyKey } from '../../src/pets/idempotency-key.js';
import type { Int64 } from '../../src/pets/int64.js';
import type { NewPet, Pet, PetStatus } from '../../src/pets/pet.js';
import type { Call, PetSource } from '../../src/pets/pet-source.js';
import { createCancellableCall } from '../support/calls.js';

/** A source and its test fixtures. */
export interface SourceUnderTest {
  readonly source: PetSource;
  /** Additional properties for every call, such as a key. */
  readonly call?: Partial<Call>;
  /** Replaces all animals in the backend. */
  reset(animals: readonly Pet[]): Promise<void>;
  /** Finds an animal that would survive a crash of this process. */
  findAfterCrash(id: Int64): Promise<Pet | undefined>;
  /** The number of requests that have reached the backend. */
  questions(): number;
  close(): Promise<void>;
}

/** Tests a source against the contract of `PetSource`. */
export function describePetSource(name: string, create: () => Promise<SourceUnderTest>): void {
  describe(`the pet source of ${name}`, () => {
    let tested: SourceUnderTest;
    let source: PetSource;
    let call: Call;

    beforeAll(async () => {
      tested = await create();
      ({ source } = tested);
    });
    afterAll(() => tested.close());
    beforeEach(async () => {
      call = callWith(new AbortController().signal);
      await tested.reset(ANIMALS);
    });

    async function find(ids: readonly Int64[]): Promise<(Pet | Error | undefined)[]> {
      const found = await source.findMany(ids, call);
      return ids.map((id) => found.get(id));
    }

    function callWith(signal: AbortSignal): Call {
      return { ...createCancellableCall(signal), ...tested.call };
    }

    describe('list', () => {
      it('returns complete animals, lowest id first', async () => {
        expect(await source.list({ limit: 100 }, call)).toEqual([...ANIMALS].sort(byId));
      });

      it.each([1, 2, 5, 6, 100])('returns at most %i animals, lowest id first', async (limit) => {
        expect(await source.list({ limit }, call)).toEqual([...ANIMALS].sort(byId).slice(0, limit));
      });

      it.each<PetStatus>(['available', 'pending', 'sold'])(
        'filters by the status %s before it applies the limit',
        async (status) => {
          const matching = ANIMALS.filter((pet) => pet.status === status).sort(byId);
          expect(await source.list({ limit: 100, status }, call)).toEqual(matching);
          expect(await source.list({ limit: 1, status }, call)).toEqual(matching.slice(0, 1));
        },
      );

      it('treats an undefined status like an omitted one', async () => {
        expect(await source.list({ limit: 100, status: undefined }, call)).toHaveLength(ANIMALS.length);
      });

      it.each(['-9223372036854775808', '-6', '-5', '1', '3', '10', '9007199254740992', '9223372036854775806'])(
        'continues after the id %s, whether an animal has it or not',
        async (id) => {
          const after = id as Int64;
          const greater = ANIMALS.filter((pet) => BigInt(pet.id) > BigInt(after)).sort(byId);
          expect(await source.list({ limit: 100, after }, call)).toEqual(greater);
          expect(await source.list({ limit: 2, after }, call)).toEqual(greater.slice(0, 2));
          for (const status of ['available', 'pending', 'sold'] as const) {
            const matching = greater.filter((pet) => pet.status === status);
            expect(await source.list({ limit: 100, status, after }, call)).toEqual(matching);
            expect(await source.list({ limit: 1, status, after }, call)).toEqual(matching.slice(0, 1));
          }
        },
      );

      it('returns an empty list after the last id', async () => {
        const after = '9223372036854775807' as Int64;
        expect(await source.list({ limit: 100, after }, call)).toEqual([]);
        expect(await source.list({ limit: 100, status: 'available', after }, call)).toEqual([]);
      });

      it('returns every animal once to a walk that goes on after the last id of each page', async () => {
        const walked: Pet[] = [];
        for (let page: readonly Pet[] | undefined; page?.length !== 0; walked.push(...page))
          page = await source.list({ limit: 2, after: walked.at(-1)?.id }, call);
        expect(walked).toEqual([...ANIMALS].sort(byId));
      });

      it('returns an empty list if there are no animals', async () => {
        await tested.reset([]);
        expect(await source.list({ limit: 100 }, call)).toEqual([]);
        expect(await source.list({ limit: 100, status: 'sold' }, call)).toEqual([]);
      });
    });

    describe('findMany', () => {
      it('returns the animal of each id', async () => {
        const ids = ANIMALS.map(({ id }) => id);
        expect(await find(ids)).toEqual(ANIMALS);
        expect(await find([...ids].reverse())).toEqual([...ANIMALS].reverse());
      });

      it('returns no animal for an absent id, whatever its neighbours are', async () => {
        const slots = await find(int64s('404', '2', '-404', '9223372036854775807', '9007199254740992'));
        expect(slots.map(isAbsent)).toEqual([true, false, true, false, true]);
        expect(slots.filter((slot) => !isAbsent(slot)).map((slot) => (slot as Pet).id)).toEqual([
          '2',
          '9223372036854775807',
        ]);
      });

      it('takes repeated ids', async () => {
        const slots = await find(int64s('2', '404', '2', '1', '404', '2'));
        expect(slots.map((slot) => (isAbsent(slot) ? undefined : (slot as Pet).id))).toEqual([
          '2',
          undefined,
          '2',
          '1',
          undefined,
          '2',
        ]);
      });

      it('returns nothing for no ids', async () => {
        expect(await source.findMany([], call)).toEqual(new Map());
      });
    });

    describe('add', () => {
      it.each<NewPet>([
        { name: 'Rex', categoryId: '7' as Int64, status: 'sold' },
        { name: 'Flocke', categoryId: '-9007199254740993' as Int64 },
        {
          name: `Žofka "the" 猫 😀'); DROP TABLE pets; --`,
          categoryId: '9223372036854775807' as Int64,
          status: 'pending',
        },
        { name: '😀'.repeat(255), categoryId: '-9223372036854775808' as Int64, status: 'available' },
      ])('returns the animal with a new id: %o', async (newPet) => {
        const added = await source.add(newPet, call);
        expect(added).toEqual({ ...newPet, id: added.id });
        expect(ANIMALS.map(({ id }) => id)).not.toContain(added.id);
        expect(await find([added.id])).toEqual([added]);
        expect(await source.list({ limit: 100 }, call)).toContainEqual(added);
      });

      it('omits the status of an animal that has none', async () => {
        const added = await source.add({ name: 'Flocke', categoryId: '1' as Int64, status: undefined }, call);
        expect(Object.keys(JSON.parse(JSON.stringify(added)) as object).sort()).toEqual(['categoryId', 'id', 'name']);
      });

      it('returns once the animal is durable', async () => {
        const added = await source.add({ name: 'Rex', categoryId: '7' as Int64, status: 'sold' }, call);
        expect(await tested.findAfterCrash(added.id)).toEqual(added);
      });

      it('adds an animal on every call, even if it equals another', async () => {
        const twin: NewPet = { name: 'Twin', categoryId: '1' as Int64 };
        const ids = [await source.add(twin, call), await source.add(twin, call)].map(({ id }) => id);
        expect(new Set(ids).size).toBe(2);
      });
    });

    describe('add with an idempotency key', () => {
      const rex: NewPet = { name: 'Rex', categoryId: '7' as Int64, status: 'sold' };
      const newKey = (): IdempotencyKey => ({ callerId: 'test', value: randomUUID() });

      it.each([rex, { name: 'Žofka "the" 猫 😀', categoryId: '-9223372036854775808' as Int64 }])(
        'adds %o once, however many concurrent and later calls repeat it',
        async (newPet) => {
          const key = newKey();
          const added = await Promise.all(Array.from({ length: 20 }, () => source.add(newPet, call, key)));
          const again = await source.add({ ...newPet }, call, { ...key });
          expect(again).toEqual({ ...newPet, id: again.id });
          expect(added).toEqual(added.map(() => again));
          expect(Object.keys(JSON.parse(JSON.stringify(again)) as object)).toHaveLength(
            newPet.status === undefined ? 3 : 4,
          );
          expect(await find([again.id])).toEqual([again]);
          expect(await source.list({ limit: 100 }, call)).toHaveLength(ANIMALS.length + 1);
        },
      );

      it.each<Partial<NewPet>>([
        { name: 'Max' },
        { categoryId: '8' as Int64 },
        { status: 'pending' },
        { status: undefined },
      ])('refuses a different animal (%o) with the same key, and adds none', async (other) => {
        const key = newKey();
        const added = await source.add(rex, call, key);
        const thrown = await source.add({ ...rex, ...other }, call, key).catch((error: unknown) => error);
        expect(toErrorBody(thrown as StoreError)).toMatchObject({ code: 'idempotency_key_reused', status: 422 });
        expect(await source.list({ limit: 100 }, call)).toHaveLength(ANIMALS.length + 1);
        expect(await source.add(rex, call, key)).toEqual(added);
      });

      it('adds a separate animal for each key, whatever its characters', async () => {
        const values = ['a', 'A', 'a ', `"'; DROP TABLE pets; --\\`, 'x'.repeat(255), 'x'.repeat(254)];
        const keys = values.map((value): IdempotencyKey => ({ callerId: 'test', value }));
        const ids = await Promise.all(keys.map(async (key) => (await source.add(rex, call, key)).id));
        expect(new Set(ids).size).toBe(keys.length);
      });
    });

    describe('an aborted call', () => {
      it.each<[string, (call: Call) => Promise<unknown>]>([
        ['list', (aborted) => source.list({ limit: 1 }, aborted)],
        ['findMany', (aborted) => source.findMany(int64s('1'), aborted)],
        ['add', (aborted) => source.add({ name: 'Rex', categoryId: '1' as Int64 }, aborted)],
      ])('of %s rejects and sends nothing to the backend', async (_, ask) => {
        const before = tested.questions();
        await expect(ask(callWith(AbortSignal.abort()))).rejects.toMatchObject({ name: 'AbortError' });
        expect(tested.questions()).toBe(before);
        expect(await source.list({ limit: 100 }, call)).toHaveLength(ANIMALS.length);
      });

      it('does not affect an equal concurrent call', async () => {
        const controller = new AbortController();
        const aborted = source.list({ limit: 2 }, callWith(controller.signal)).catch(() => 'aborted');
        const other = source.list({ limit: 2 }, call);
        controller.abort();
        expect(await other).toHaveLength(2);
        await aborted;
      });
    });

    it('keeps concurrent calls apart', async () => {
      const names = Array.from({ length: 30 }, (_, n) => `animal ${n}`);
      const lowest = [...ANIMALS].sort(byId);
      const [added, found, lists, pages] = await Promise.all([
        Promise.all(names.map((animal, n) => source.add({ name: animal, categoryId: String(n) as Int64 }, call))),
        Promise.all(names.map((_, n) => find([ANIMALS[n % ANIMALS.length]?.id as Int64]))),
        Promise.all(names.map((_, n) => source.list({ limit: 1 + (n % 3) }, call))),
        Promise.all(names.map((_, n) => source.list({ limit: 1, after: lowest[n % 3]?.id }, call))),
      ]);
      expect(added.map((pet) => [pet.name, pet.categoryId])).toEqual(names.map((animal, n) => [animal, String(n)]));
      expect(new Set(added.map(({ id }) => id)).size).toBe(30);
      expect(found).toEqual(names.map((_, n) => [ANIMALS[n % ANIMALS.length]]));
      expect(pages.map(([first]) => first)).toEqual(names.map((_, n) => lowest[1 + (n % 3)]));
      expect(lists).toEqual(names.map((_, n) => lowest.slice(0, 1 + (n % 3))));
    });
  });
}

const ANIMALS: readonly Pet[] = [
  { id: '2', name: 'Milo', categoryId: '20', status: 'sold' },
  { id: '9223372036854775807', name: 'Last', categoryId: '-9223372036854775808', status: 'available' },
  { id: '-5', name: 'Before', categoryId: '0', status: 'sold' },
  { id: '1', name: 'Bella', categoryId: '10', status: 'available' },
  { id: '9007199254740993', name: 'Žofka "the" 猫', categoryId: '9007199254740993', status: 'pending' },
  { id: '10', name: 'Flocke', categoryId: '30' },
] as Pet[];

function int64s(...texts: string[]): Int64[] {
  return texts as Int64[];
}

function byId(a: Pet, b: Pet): number {
  return BigInt(a.id) < BigInt(b.id) ? -1 : 1;
}

function isAbsent(slot: Pet | Error | undefined): boolean {
  return slot === undefined || (slot instanceof StoreError && slot.code === 'not_found');
}
