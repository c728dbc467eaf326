import assert from "node:assert/strict";
import { test } from "node:test";
import { lanesOf, speedFigure, speedHeight } from "../../web/js/charts/speed.js";
import { toAxis } from "../../web/js/charts/axis.js";
import { textOf } from "../../web/js/dom.js";
import { eventsOf, figureOf } from "../../web/js/figures.js";
import { speedCard } from "../../web/js/panels/speed.js";
import { reading, readingOf } from "../../web/js/reading.js";
import { initialState, parseRoute } from "../../web/js/store.js";
import { finding, palette, series, summary } from "./shapes.js";

const range = { start: 1400, end: 1700 };
const base = { events: [], epochs: [], findings: [], range, width: 1000 };
/** @param {any} node */
const text = (node) => textOf(node).replace(/\u202f|\u00a0/g, " ");

/**
 * @param {import("../../web/js/types.js").Mark["kind"]} kind @param {number} began_at
 * @param {number|null} [ended_at] @param {Partial<import("../../web/js/types.js").Mark>} [more]
 * @returns {import("../../web/js/types.js").Mark}
 */
function mark(kind, began_at, ended_at = null, more = {}) {
  return { kind, began_at, ended_at, ranks: [0], text: kind, finding_id: null, ...more };
}

test("speed: zero is a line at the bottom, unknown is a gap; samples have their own axis", () => {
  const { data, layout } = speedFigure(
    {
      ...base,
      data: {
        steps_per_s: series([10, 0, 0, null, null, null, 9]),
        samples_per_s: series([640, 0, 0, null, null, null, 576]),
      },
    },
    palette,
  );
  assert.deepEqual(data.filter((d) => d.name !== "").map((d) => d.name), ["steps/s", "samples/s"]);
  assert.deepEqual(data[1].y, [10, 0, 0, null, null, null, 9]);
  assert.equal(data[1].connectgaps, false);
  assert.ok(layout.yaxis2.range[1] > 1.5 * 640 && layout.yaxis2.side === "right");
  assert.equal(layout.yaxis3, undefined, "no lane without events");
  assert.deepEqual(layout.yaxis.domain, [0, 1]);
});

test("events have a lane and a shape per kind, only those in view", () => {
  const events = [
    mark("evaluation", 1450, 1460),
    mark("config", 1500, null, { text: "train_loader: num_workers 2 → 4 <b>&" }),
    mark("checkpoint", 100, 110),
    mark("alert", 1690, null, { ranks: [] }),
  ];
  assert.deepEqual(lanesOf(events, range).map((l) => l.kind), ["alert", "config", "evaluation"]);
  const { data, layout } = speedFigure({ ...base, events, data: { steps_per_s: series([10]) } }, palette);
  assert.deepEqual(layout.yaxis3.ticktext, ["alert", "settings", "evaluation"]);
  assert.equal(layout.xaxis.anchor, "y3");
  assert.ok(layout.yaxis.domain[0] > 0 && layout.height === speedHeight(3));
  const shapes = data.filter((d) => d.mode === "markers");
  assert.equal(new Set(shapes.map((d) => d.marker.symbol)).size, 3);
  assert.deepEqual(shapes[1].text, ["settings: train_loader: num_workers 2 → 4 &lt;b&gt;&amp; (rank 0)"]);
  const bars = data.filter((d) => d.mode === "lines" && d.yaxis === "y3");
  assert.deepEqual(bars[2].x.slice(0, 2), [toAxis(1450), toAxis(1460)]);
  assert.deepEqual(
    bars[0].x.slice(0, 2),
    [toAxis(1690), toAxis(1700)],
    "an alert that goes on reaches to the edge",
  );
  assert.deepEqual(bars[1].x.slice(0, 2), [toAxis(1500), toAxis(1500)]);
});

test("a legend reads the mean of the time in view, or the moment under the pointer, and says which", () => {
  const state = { ...initialState(), clock: 1600 };
  const values = series([1, 3, null]);
  assert.equal(reading(state, values), 2);
  assert.equal(readingOf(state), "means of the time in view");
  const pointed = { ...state, pointed_at: 1501.4 };
  assert.equal(reading(pointed, values), 3);
  assert.match(readingOf(pointed), /^at \d\d:\d\d:\d\d$/);
  assert.equal(reading({ ...state, pointed_at: 1502.5 }, values), null, "unknown under the pointer");
  assert.equal(reading({ ...state, pointed_at: 99 }, values), null);
  assert.equal(reading(state, undefined), null);
  assert.equal(reading(state, series([null])), null);
});

test("the card of the speed", () => {
  const held = (/** @type {any} */ data) => ({ data, range, error: null, loaded_at: 0 });
  const base = {
    ...initialState(),
    route: parseRoute("#/runs/r"),
    summary: summary(),
    rank: 1,
    link: /** @type {const} */ ("live"),
    clock: 1600,
  };
  const state = {
    ...base,
    cards: {
      speed: held({ steps_per_s: series([10, 0]), samples_per_s: series([640, 0]) }),
      marks: held([mark("config", 1500)]),
    },
  };
  assert.match(
    text(speedCard(state)),
    /training steps of rank 1.*0 while it stands.*steps\/s 5  samples\/s 320 means of the time in view/,
  );
  assert.equal(figureOf(state, "speed", palette, 900)?.layout.yaxis3.ticktext.length, 1);
  const alarmed = {
    ...state,
    findings: [
      finding({ rank: 1, began_at: 1550 }),
      finding({ id: "other", rank: 0 }),
      finding({ id: "remark", severity: "info" }),
    ],
  };
  assert.deepEqual(
    eventsOf(alarmed).map((e) => [e.kind, e.finding_id]),
    [
      ["config", null],
      ["alert", "f1"],
    ],
    "alerts of this rank, as they are now",
  );
  const none = {
    ...base,
    cards: { speed: held({ steps_per_s: series([null]), samples_per_s: series([null]) }) },
  };
  assert.match(text(speedCard(none)), /No steps in this range/);
});
