// The picture of sampled stacks: nested boxes, outermost frame on top. Width is the share of the samples.

/**
 * @typedef {import("../types.js").Profile} Profile
 * @typedef {import("../types.js").ProfileFrame} ProfileFrame
 * @typedef {import("../types.js").ProfileLine} ProfileLine
 * @typedef {import("../types.js").CountedStack} CountedStack
 * @typedef {import("../types.js").ThreadStateName} ThreadStateName
 * @typedef {import("../types.js").ProfilePartName} ProfilePartName
 * @typedef {{state: ThreadStateName, share: number}} StateShare
 * @typedef {{frames: ProfileFrame[], samples: number}} Counted - `frames`: the outermost first
 *
 * A box of the picture. `left` and `width` are shares of the picture. `merged`: the frames of a library's
 * module are one box; `opens`: the key by which the reader opens that box, or merges its frames again.
 * @typedef {{key: string, parent: Box|null, children: Box[], depth: number, left: number, width: number,
 *   frame: ProfileFrame, merged: boolean, opens: string|null, functions: Set<string>, samples: number,
 *   stacks: CountedStack[], states: StateShare[]}} Box
 */

/** @type {ProfilePartName[]} */
export const PARTS = ["fetch", "step", "evaluation", "boundary"];

/**
 * The look of each state. Two states share a colour where one of them is hatched.
 * @type {Record<ThreadStateName, {color: string, hatch: boolean}>}
 */
export const STATES = {
  running: { color: "c-optimizer", hatch: false },
  runnable: { color: "c-wait", hatch: false },
  disk: { color: "c-backward", hatch: false },
  network: { color: "c-forward", hatch: false },
  lock: { color: "c-h2d", hatch: false },
  pipe: { color: "c-others", hatch: false },
  child: { color: "c-backward", hatch: true },
  timer: { color: "c-other", hatch: false },
  waiting: { color: "c-others", hatch: true },
};

/** The file of a native function, as in core/facts.py. */
const NATIVE_FILE = "<native>";
/** With fewer samples no interval is shown: it would be wider than 40 points. */
export const LEAST_SAMPLES = 20; // as core/records.py
/** From this share of unread samples on, the card says so. */
export const MUCH_UNREAD = 0.2;
/** Narrower boxes are not drawn: about two pixels on a screen. */
const LEAST_WIDTH = 0.004;

/** The share of the samples that have no stack. @param {Profile} profile */
export const unreadRatio = ({ samples, unread }) => unread / Math.max(1, samples + unread);

/**
 * A library's module in two words: package and file. Python's own modules belong to "Python".
 * @param {string} file
 */
export function moduleOf(file) {
  if (file === NATIVE_FILE) return "C";
  const frozen = /^<frozen (.+)>$/.exec(file);
  if (frozen !== null) return `Python · ${frozen[1]}`;
  const path = file.replaceAll("\\", "/").replace(/(?<=.)\/__init__\.py$/, "");
  const installed = /(?:site|dist)-packages\/(.+)$/.exec(path)?.[1];
  const standard = /\/lib(?:64)?\/python3[^/]*\/(.+)$/.exec(path)?.[1];
  if (installed === undefined) return standard === undefined ? baseOf(path) : `Python · ${standard}`;
  const [first = "", ...rest] = installed.split("/");
  return rest.length === 0 ? first : `${first} · ${rest[rest.length - 1]}`;
}

/** The name of a file without its folders. @param {string} file */
export const baseOf = (file) => file.split(/[\\/]/).pop() ?? file;

/** @param {{file: string, line: number, function: string}} place */
const placeKey = (place) => `${place.file}:${place.line}:${place.function}`;

/**
 * The boxes of a profile, each before its children, the largest child first.
 * @param {Profile} profile @param {Set<string>} [opened] - `opens` of boxes whose frames are drawn one by one
 * @returns {Box[]}
 */
export function boxesOf(profile, opened = new Set()) {
  const root = growing("", null);
  for (const stack of profile.stacks) {
    const { frames } = stack;
    let at = root;
    for (let i = 0; i < frames.length; ) {
      const frame = /** @type {ProfileFrame} */ (frames[i]);
      let end = i + 1;
      while (frame.library && frames[end]?.library && frames[end]?.file === frame.file) end += 1;
      const run = frames.slice(i, end);
      const opens = frame.library ? openerOf(at, frame.file) : null;
      if (opens === null || opened.has(opens))
        for (const one of run) at = grown(at, placeKey(one), [one], opens, false, stack);
      else at = grown(at, frame.file, run, opens, true, stack);
      i = end;
    }
  }
  const outermost = [...root.inside.values()].flatMap(({ box }) => box ?? []);
  // Rare stacks may be missing in the answer. Their samples count: shares agree with the table.
  const sent = outermost.reduce((sum, box) => sum + box.samples, 0);
  return placed(outermost, 0, Math.max(profile.samples, sent));
}

/**
 * A box while stacks are added, with the boxes inside it by what tells them apart. `opens`: by module.
 * @typedef {{key: string, box: Box|null, inside: Map<string, Growing>, opens: Map<string, string>}} Growing
 */

/** @param {string} key @param {Box|null} box @returns {Growing} */
const growing = (key, box) => ({ key, box, inside: new Map(), opens: new Map() });

/** The key that opens a module's box inside another box. @param {Growing} within @param {string} file */
function openerOf(within, file) {
  const known = within.opens.get(file) ?? `${within.key}/${file}`;
  within.opens.set(file, known);
  return known;
}

/**
 * Count a stack in a box inside another one.
 * @param {Growing} within @param {string} id @param {ProfileFrame[]} frames @param {string|null} opens
 * @param {boolean} merged @param {CountedStack} stack @returns {Growing}
 */
function grown(within, id, frames, opens, merged, stack) {
  let found = within.inside.get(id);
  if (found === undefined) {
    const frame = /** @type {ProfileFrame} */ (frames[0]);
    const parent = within.box;
    const key = `${within.key}/${id}`;
    /** @type {Box} */
    const box = {
      ...{ key, parent, children: [], depth: parent === null ? 0 : parent.depth + 1, left: 0, width: 0 },
      ...{ frame, merged, opens, functions: new Set(), samples: 0, stacks: [], states: [] },
    };
    parent?.children.push(box);
    found = growing(key, box);
    within.inside.set(id, found);
  }
  const box = /** @type {Box} */ (found.box);
  for (const frame of frames) box.functions.add(frame.function);
  box.samples += stack.samples;
  box.stacks.push(stack);
  return found;
}

/**
 * @param {Box[]} siblings @param {number} left @param {number} all - samples of the whole picture
 * @returns {Box[]}
 */
function placed(siblings, left, all) {
  siblings.sort((a, b) => b.samples - a.samples);
  return siblings.flatMap((box) => {
    box.left = left;
    box.width = box.samples / all;
    left += box.width;
    if (box.width < LEAST_WIDTH) return [];
    box.states = statesOf(box.stacks);
    return [box, ...placed(box.children, box.left, all)];
  });
}

/** The key of the outermost frame of a merged box, once the box is opened. @param {Box} box */
export const firstInside = (box) => `${box.parent?.key ?? ""}/${placeKey(box.frame)}`;

/** How deep the picture is, in rows. @param {Box[]} boxes */
export const rowsOf = (boxes) => boxes.reduce((most, box) => Math.max(most, box.depth + 1), 0);

/**
 * The box to which an arrow key leads; null: there is none.
 * @param {Box[]} boxes @param {Box} from @param {string} key - of the keyboard
 * @returns {Box|null}
 */
export function boxBeside(boxes, from, key) {
  if (key === "ArrowUp") return from.parent;
  if (key === "ArrowDown") return from.children.find((child) => boxes.includes(child)) ?? null;
  const row = boxes.filter((box) => box.depth === from.depth).sort((a, b) => a.left - b.left);
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
  return by === undefined ? null : (row[row.indexOf(from) + by] ?? null);
}

/**
 * What threads did, as shares of the samples of some stacks, the largest first.
 * @param {CountedStack[]} stacks @returns {StateShare[]}
 */
export function statesOf(stacks) {
  /** @type {Record<string, number>} */
  const samples = {};
  let all = 0;
  for (const stack of stacks) {
    samples[stack.state] = (samples[stack.state] ?? 0) + stack.samples;
    all += stack.samples;
  }
  return sorted(Object.fromEntries(Object.entries(samples).map(([state, n]) => [state, n / all])));
}

/**
 * Shares by state as a list, the largest first. Equal ones keep the order of `STATES`.
 * @param {Record<string, number>} shares @returns {StateShare[]}
 */
export const sorted = (shares) =>
  /** @type {ThreadStateName[]} */ (Object.keys(STATES))
    .map((state) => ({ state, share: shares[state] ?? 0 }))
    .filter(({ share }) => share > 0)
    .sort((a, b) => b.share - a.share);

/** The innermost frame of the user's code. @param {ProfileFrame[]} frames @returns {ProfileFrame|null} */
export const ownFrame = (frames) => frames.filter((frame) => !frame.library).at(-1) ?? null;

/** @param {{file: string, line: number, function: string}} a @param {ProfileFrame} b */
export const isAt = (a, b) => a.file === b.file && a.line === b.line && a.function === b.function;

/**
 * The stacks of a line. Its frame is the innermost of the user's code; a stack without the user's code counts
 * where any of its frames is the line.
 * @param {Profile} profile @param {ProfileLine} line
 */
export const stacksAt = (profile, line) =>
  profile.stacks.filter(({ frames }) => {
    const own = ownFrame(frames);
    return own === null ? frames.some((frame) => isAt(line, frame)) : isAt(line, own);
  });

/**
 * Stacks with the same frames as one, whatever the thread did; the most frequent first.
 * @param {CountedStack[]} stacks @returns {Counted[]}
 */
export function byFrames(stacks) {
  /** @type {Map<string, Counted>} */
  const counted = new Map();
  for (const { frames, samples } of stacks) {
    const key = frames.map(placeKey).join("/");
    const known = counted.get(key);
    if (known === undefined) counted.set(key, { frames, samples });
    else known.samples += samples;
  }
  return [...counted.values()].sort((a, b) => b.samples - a.samples);
}
