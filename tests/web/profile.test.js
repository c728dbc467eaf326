// Where a fetch goes: boxes of sampled stacks, merged library frames, and the card.

import assert from "node:assert/strict";
import { test } from "node:test";
import { sourcesOf } from "../../web/js/cards.js";
import {
  PARTS,
  STATES,
  boxBeside,
  boxesOf,
  byFrames,
  firstInside,
  moduleOf,
  stacksAt,
  statesOf,
  unreadRatio,
} from "../../web/js/charts/profile.js";
import { textOf } from "../../web/js/dom.js";
import { intervalText, profileCard } from "../../web/js/panels/profile.js";
import { initialState, parseRoute } from "../../web/js/store.js";
import { rank, summary } from "./shapes.js";

/**
 * @typedef {import("../../web/js/types.js").Profile} Profile
 * @typedef {import("../../web/js/types.js").ProfileFrame} ProfileFrame
 * @typedef {import("../../web/js/types.js").ThreadStateName} ThreadStateName
 */

const SITE = "/venv/lib/python3.12/site-packages/";

/**
 * A frame of "file:line function"; a file in a folder is a library's.
 * @param {string} text @returns {ProfileFrame}
 */
function frame(text) {
  const [, file = "", line, name = ""] = /^(.*):(\d+) (.*)$/.exec(text) ?? [];
  const library = file.includes("/");
  return { file: library ? SITE + file : `/home/a/${file}`, line: Number(line), function: name, library };
}

/** @param {string} frames @param {ThreadStateName} state @param {number} samples */
const stack = (frames, state, samples) => ({ frames: frames.split(" | ").map(frame), state, samples });

const OPEN = "torch/fetch.py:54 fetch | faces.py:48 get | zip/file.py:10 open";
const STACKS = [
  stack(`${OPEN} | zip/file.py:20 read`, "disk", 30),
  stack(`${OPEN} | zip/file.py:20 read`, "running", 10),
  stack(`${OPEN} | zip/file.py:30 seek`, "running", 20),
  stack("torch/fetch.py:54 fetch | faces.py:48 get | PIL/Image.py:9 load", "running", 10),
  stack("torch/fetch.py:54 fetch | faces.py:52 get", "lock", 30),
];

/** @param {Partial<Profile>} [more] @returns {Profile} */
function profile(more = {}) {
  return {
    of: "fetch",
    ranks: [0, 1],
    start: 1500,
    end: 1600,
    samples: 100,
    unread: 2,
    states: { running: 0.4, disk: 0.3, lock: 0.3 },
    lines: [
      {
        ...{ file: "/home/a/faces.py", line: 48, function: "get", share: 0.7, low: 0.604, high: 0.781 },
        ...{ states: { running: 0.57, disk: 0.43 }, calls: "ZipFile.read", per_sample_s: 0.0217 },
        per_batch_s: 0.69,
      },
      {
        ...{ file: "/home/a/faces.py", line: 52, function: "get", share: 0.3, low: 0.219, high: 0.396 },
        ...{ states: { lock: 1 }, calls: null, per_sample_s: 0.0093, per_batch_s: 0.3 },
      },
    ],
    stacks: STACKS,
    ...more,
  };
}

/** @param {import("../../web/js/types.js").ProfilePartName} of */
const none = (of) =>
  profile({
    ...{ of, ranks: [], start: null, end: null, samples: 0, unread: 0 },
    ...{ states: {}, lines: [], stacks: [] },
  });

/** @param {Partial<Record<string, Profile>>} parts @returns {import("../../web/js/store.js").State} */
function state(parts) {
  const data = { ...Object.fromEntries(PARTS.map((of) => [of, none(of)])), ...parts };
  const cards = { profile: { data, range: { start: 0, end: 0 }, error: null, loaded_at: 0 } };
  return { ...initialState(), route: parseRoute("#/runs/r"), summary: summary(), cards };
}

/** @type {Record<string, string>} */
let chosen = {};
/** @type {Record<string, boolean>} */
let opened = {};
const act = /** @type {any} */ ({
  choose: (/** @type {Record<string, string>} */ choices) => (chosen = { ...chosen, ...choices }),
  open: (/** @type {string} */ id, /** @type {boolean} */ on) => (opened = { ...opened, [id]: on }),
});

/** @param {any} node */
const text = (node) => textOf(node).replace(/[\u202f\u00a0]/g, " ").replace(/ +/g, " ");

/** All nodes with a class. @param {any} node @param {string} cls @returns {any[]} */
function withClass(node, cls) {
  if (typeof node === "string") return [];
  const own = String(node.props.class ?? "").split(" ").includes(cls) ? [node] : [];
  return [...own, ...node.children.flatMap((/** @type {any} */ child) => withClass(child, cls))];
}

test("boxes nest from the outermost frame to the line, as wide as their share", () => {
  const boxes = boxesOf(profile());
  assert.deepEqual(
    boxes.map((b) => [b.depth, b.frame.file.split("/").pop(), b.frame.line, b.samples]),
    [
      [0, "fetch.py", 54, 100],
      [1, "faces.py", 48, 70],
      [2, "file.py", 10, 60],
      [2, "Image.py", 9, 10],
      [1, "faces.py", 52, 30],
    ],
  );
  for (const box of boxes) {
    assert.equal(box.width, box.samples / 100);
    const inside = box.children.reduce((sum, child) => sum + child.width, 0);
    assert.ok(inside <= box.width + 1e-9, "children are no wider than their parent");
  }
  assert.deepEqual(
    boxes.map((b) => Number(b.left.toFixed(3))),
    [0, 0, 0, 0.6, 0.7],
  );
});

test("library frames of one module are one box, and the reader can open it", () => {
  const zip = /** @type {import("../../web/js/charts/profile.js").Box} */ (boxesOf(profile())[2]);
  assert.deepEqual([zip.merged, zip.functions.size], [true, 3]);
  const open = boxesOf(profile(), new Set([zip.opens ?? ""]));
  const inside = open.filter((b) => b.opens === zip.opens);
  assert.deepEqual(
    inside.map((b) => [b.frame.function, b.depth, b.samples, b.merged]),
    [
      ["open", 2, 60, false],
      ["read", 3, 40, false],
      ["seek", 3, 20, false],
    ],
  );
  assert.equal(inside[0]?.key, firstInside(zip));
  const image = open.find((b) => b.frame.file.endsWith("Image.py"));
  assert.equal(image?.merged, true, "other modules stay merged");
});

test("boxes of less than two pixels are left out, also those inside them", () => {
  const rare = stack("torch/fetch.py:54 fetch | rare.py:1 f | rare.py:2 g", "running", 1);
  const often = stack("torch/fetch.py:54 fetch | faces.py:48 get", "running", 999);
  assert.equal(boxesOf(profile({ stacks: [often, rare], samples: 1000 })).length, 2);
  assert.deepEqual(boxesOf(none("fetch")), []);
});

test("samples whose stacks were not sent leave room at the end", () => {
  assert.equal(boxesOf(profile({ samples: 200 }))[0]?.width, 0.5);
});

test("arrow keys lead to parents, children and neighbours", () => {
  const boxes = boxesOf(profile());
  const [fetch, get, zip, image, lock] = boxes;
  assert.ok(fetch && get && zip && image && lock);
  assert.equal(boxBeside(boxes, fetch, "ArrowDown"), get);
  assert.equal(boxBeside(boxes, get, "ArrowRight"), lock);
  assert.equal(boxBeside(boxes, image, "ArrowLeft"), zip);
  assert.equal(boxBeside(boxes, zip, "ArrowUp"), get);
  for (const [from, key] of /** @type {const} */ ([
    [fetch, "ArrowUp"],
    [lock, "ArrowDown"],
    [lock, "ArrowRight"],
    [zip, "ArrowLeft"],
    [zip, "Home"],
  ]))
    assert.equal(boxBeside(boxes, from, key), null);
});

test("a library's module is named by its package and file", () => {
  for (const [file, name] of [
    [`${SITE}PIL/Image.py`, "PIL · Image.py"],
    [`${SITE}torch/utils/data/_utils/fetch.py`, "torch · fetch.py"],
    [`${SITE}six.py`, "six.py"],
    [`${SITE}numpy/__init__.py`, "numpy"],
    ["/usr/lib/python3.12/zipfile/__init__.py", "Python · zipfile"],
    ["/usr/lib64/python3.11/json/decoder.py", "Python · json/decoder.py"],
    ["<frozen importlib._bootstrap>", "Python · importlib._bootstrap"],
    ["<native>", "C"],
    ["/x/7f3a9c.py", "7f3a9c.py"],
    ["__init__.py", "__init__.py"],
  ])
    assert.equal(moduleOf(file ?? ""), name);
});

test("a line has the stacks in which it is the innermost frame of the user's code", () => {
  const [get, lock] = profile().lines;
  assert.ok(get && lock);
  assert.deepEqual(stacksAt(profile(), lock).map((s) => s.samples), [30]);
  const counted = byFrames(stacksAt(profile(), get));
  assert.deepEqual(
    counted.map((c) => [c.frames.at(-1)?.function, c.samples]),
    [
      ["read", 40],
      ["seek", 20],
      ["load", 10],
    ],
    "whatever the thread did",
  );
  const joining = stack("torch/fetch.py:54 fetch | torch/collate.py:5 join", "running", 3);
  const outside = profile({ stacks: [joining] });
  assert.equal(stacksAt(outside, get).length, 0);
  assert.equal(stacksAt(outside, { ...get, ...frame("torch/collate.py:5 join") }).length, 1);
});

test("states are shares of the samples, the largest first", () => {
  assert.deepEqual(statesOf(STACKS), [
    { state: "running", share: 0.4 },
    { state: "disk", share: 0.3 },
    { state: "lock", share: 0.3 },
  ]);
  const looks = Object.values(STATES).map(({ color, hatch }) => `${color} ${hatch}`);
  assert.equal(new Set(looks).size, Object.keys(STATES).length, "no two states look alike");
});

test("an interval has one sign", () => {
  const plain = (/** @type {string} */ s) => s.replace(/\u202f/g, " ");
  assert.equal(plain(intervalText(0.604, 0.781)), "60–78 %");
  assert.equal(plain(intervalText(0.012, 0.114)), "1.2–11 %");
  assert.equal(plain(intervalText(0, 0.06)), "0–6.0 %");
});

test("the card says the largest line in a sentence, and each line in a row", () => {
  const card = profileCard(state({ fetch: profile() }), act);
  const said = text(card);
  assert.match(said, /Where a fetch goes/);
  assert.match(said, /70 % of a fetch goes to faces\.py:48 in get, mostly in ZipFile\.read\./);
  assert.match(said, /100 samples of stacks at random moments, ranks 0 and 1, /);
  assert.doesNotMatch(said, /missing/);
  const rows = withClass(card, "row-link").map(text);
  assert.match(
    rows[0] ?? "",
    /faces\.py :48 get 70 % 60–78 % 22 ms computes 57 % waits for disk 43 % ZipFile\.read/,
  );
  assert.match(rows[1] ?? "", /faces\.py :52 get 30 % 22–40 % 9\.3 ms waits for a lock 100 % its own code/);
  assert.match(said, /Share, 95 % interval Per sample/);
  assert.equal(withClass(card, "segments").length, 0, "one part has samples");
});

test("few samples have no interval, and many that are unread are told", () => {
  const few = text(profileCard(state({ fetch: profile({ samples: 19 }) }), act));
  assert.match(few, /Only 19 samples so far\./);
  assert.doesNotMatch(few, /60–78|interval/);
  assert.match(text(profileCard(state({ fetch: profile({ samples: 1 }) }), act)), /Only 1 sample so far\./);
  assert.equal(unreadRatio(profile({ samples: 75, unread: 25 })), 0.25);
  const unread = profileCard(state({ fetch: profile({ samples: 75, unread: 25 }) }), act);
  assert.match(text(unread), /25 % of all samples are missing: their stack could not be read, or is /);
});

test("a switch offers the parts that have samples", () => {
  const step = profile({ of: "step", lines: profile().lines.map((l) => ({ ...l, per_sample_s: null })) });
  const both = state({ fetch: profile(), step });
  const [parts] = withClass(profileCard(both, act), "segments");
  assert.deepEqual(parts.children.map(text), ["Fetch", "Step"]);
  parts.children[1].props.onclick();
  assert.equal(chosen["profile.of"], "step");
  const said = text(profileCard({ ...both, choices: chosen }, act));
  assert.match(said, /Where a step goes/);
  assert.match(said, /Per step/);
  assert.match(said, /690 ms/);
  const gone = text(profileCard({ ...state({ fetch: profile() }), choices: chosen }, act));
  assert.match(gone, /Where a fetch goes/, "a part without samples cannot stay chosen");
});

test("without stacks the card says why", () => {
  assert.match(text(profileCard(state({}), act)), /No samples of stacks in this range/);
  const unread = state({ step: { ...none("step"), unread: 7 } });
  assert.match(text(profileCard(unread, act)), /7 samples were taken, but no stack could be read\./);
});

test("a row or a box opens the frames of its stacks", () => {
  const data = state({ fetch: profile() });
  const [row] = withClass(profileCard(data, act), "row-link");
  row.props.onclick();
  const [frames] = withClass(profileCard({ ...data, open: opened }, act), "unfolded");
  assert.match(text(frames), /40 of 70 samples \(57 %\)/);
  assert.match(text(frames), /get \/home\/a\/faces\.py:48 your code/);

  const box = withClass(profileCard(data, act), "flame-box")[2];
  assert.equal(
    box.props["aria-label"].replace(/\u202f/g, " "),
    "zip · file.py: 60 %, computes 50 %, waits for disk 50 %",
  );
  assert.equal(box.props["aria-expanded"], "false");
  box.props.onclick();
  const shown = profileCard({ ...data, choices: chosen }, act);
  assert.equal(withClass(shown, "flame-box")[2].props["aria-expanded"], "true");
  const [panel] = withClass(shown, "box-frames");
  assert.match(text(panel), /zip · file\.py Show its 3 functions 60 % of a fetch: computes 50 %, waits/);
  withClass(panel, "button")[0].props.onclick();
  const inside = profileCard({ ...data, choices: chosen, open: opened }, act);
  assert.match(text(withClass(inside, "box-frames")[0]), /open zip · file\.py Merge zip · file\.py/);
  withClass(withClass(inside, "box-frames")[0], "button")[0].props.onclick();
  const merged = profileCard({ ...data, choices: chosen, open: opened }, act);
  assert.match(text(withClass(merged, "box-frames")[0]), /^ ?zip · file\.py Show its 3 functions/);
});

test("it asks for all ranks on the run's page and for one on a rank's, every ten seconds", () => {
  /** @param {string} hash */
  const source = (hash) => {
    const two = summary({ ranks: [rank(0, 0.1), rank(1, 0.2)] });
    const at = { ...state({}), summary: two, route: parseRoute(hash) };
    const found = sourcesOf(at).find((s) => s.id === "profile");
    return [found?.asks(at), found?.timed, found?.every_s];
  };
  assert.deepEqual(source("#/runs/r"), ["all", true, 10]);
  assert.deepEqual(source("#/runs/r/ranks/1"), ["1", true, 10]);
});
