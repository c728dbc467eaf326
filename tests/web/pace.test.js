// When a change is drawn.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ACTED_EVERY_MS, DATA_EVERY_MS, Pace, isUrgent, pointsFor } from "../../web/js/pace.js";
import { initialState, streamed } from "../../web/js/store.js";
import { summary } from "./shapes.js";

const card = { data: {}, range: null, error: null, loaded_at: 0 };
const shown = {
  ...streamed(initialState(), { summary: summary(), findings: [], findings_changed: true, newest_at: 1 }, 0),
  cards: { steps: card },
};

test("arriving data can wait; the reader's actions and a first answer cannot", () => {
  assert.ok(
    !isUrgent(shown, {
      ...shown,
      clock: 7,
      summary: summary({ steps: 1300 }),
      cards: { steps: { ...card } },
    }),
  );
  assert.ok(isUrgent(shown, { ...shown, cards: { ...shown.cards, gpu: card } }));
  assert.ok(isUrgent(initialState(), shown));
  assert.ok(isUrgent({ ...shown, runs: null }, { ...shown, runs: [] }));
  for (const act of [
    { help: true },
    { paused: true },
    { note: "Copied" },
    { view: /** @type {const} */ ({ kind: "all" }) },
    { choices: { x: "y" } },
    { link: /** @type {const} */ ("stale") },
  ])
    assert.ok(isUrgent(shown, { ...shown, ...act }), JSON.stringify(act));
});

test("answers to the reader's action are drawn as soon as the action", () => {
  const pace = new Pace();
  const later = { ...shown, clock: 8 };
  assert.equal(pace.between(shown, later, 1000), DATA_EVERY_MS);
  const acted = /** @type {const} */ ({ ...later, view: { kind: "all" } });
  assert.equal(pace.between(later, acted, 1000), ACTED_EVERY_MS);
  const answer = { ...acted, cards: { steps: { ...card } } };
  assert.equal(pace.between(acted, answer, 2000), ACTED_EVERY_MS);
  assert.equal(pace.between(answer, { ...answer, clock: 9 }, 3000), DATA_EVERY_MS);
});

test("a wide page has no more buckets than it can show, a phone enough for the shape", () => {
  assert.deepEqual([390, 1280, 2560].map(pointsFor), [160, 187, 320]);
});
