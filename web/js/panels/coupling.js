// Who waits for whom: the parts of one iteration, rank by rank; or, while the ranks stand still, where each of them stands.

import { h } from "../dom.js";
import { count, duration, percent, plural } from "../format.js";
import { icon } from "../icons.js";
import { isGoing, routeHash } from "../store.js";
import { card } from "./frame.js";
import { empty } from "./parts.js";
import { stackBody } from "./stacks.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Coupling} Coupling
 * @typedef {import("../types.js").Share} Share
 * @typedef {import("../types.js").Place} Place
 * @typedef {import("../main.js").Actions} Actions
 * @typedef {import("../dom.js").Child} Child
 */

/** Bars drawn one by one; of more ranks the outliers are, and the others become one bar. */
const MOST_BARS = 8;
const MOST_OUTLIERS = 4;
const MOST_PLACES = 8;

/** The card, or nothing for a run of one rank. @param {State} state @param {Actions} act */
export function couplingCard(state, act) {
  if ((state.summary?.world_size ?? 1) < 2) return null;
  /** @type {Coupling|null} */
  const c = state.cards.coupling?.data ?? null;
  const standing = isStanding(state);
  const bars = c === null || standing ? [] : barsOf(c);
  return card(state, {
    id: "coupling",
    title: standing ? "Who stands where" : "Who waits for whom",
    about: c === null || standing || c.iterations === 0 ? "" : `${reach(c)}, mean of ${plural(c.iterations, "iteration")} that all ranks did${SOURCES[c.source ?? ""] ?? ""}`,
    legend:
      bars.length === 0
        ? []
        : [
            { name: "own data wait", color: "c-wait" },
            { name: "own work", color: "c-backward" },
            ...(c?.source ? [{ name: "waits for other ranks", color: "c-others", hatch: true }] : []),
          ],
    height: "152px",
    body: c === null ? null : h("div", { class: "coupling" }, standing ? standstill(c, state, act) : [verdict(c), bars.length > 0 && barRows(c, bars, state)]),
    empty: c !== null && !standing && c.state === "unknown" ? empty("Not known yet", `${capital(c.reason)}.`) : null,
  });
}

/** Over what the bars are. Of slow iterations some are compared that lie further back than the tiles look. @param {Coupling} c */
function reach(c) {
  const [first] = c.ranks;
  const span_s = c.iterations * (first?.iteration_s ?? 0);
  return `last ${duration(span_s > 33 ? Math.round(span_s) : 30)}`;
}

/** @type {Record<string, string>} */
const SOURCES = { measured: ", waits measured in DDP's collectives", durations: ", waits from their durations" };

/** Whether the ranks stand still now: then the card is a part of the answer. @param {State} state */
export function isStanding(state) {
  return state.cards.coupling?.data?.state === "standing";
}

/** "rank 1", "ranks 0, 2 and 3", "ranks 0, 1, 2 and 252 more". @param {number[]} ranks */
export function rankNames(ranks) {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const shown = ranks.length > 4 ? ranks.slice(0, 3) : ranks;
  const rest = ranks.length - shown.length;
  const names = [...shown.map(String), ...(rest > 0 ? [`${rest} more`] : [])];
  return `ranks ${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Those that wait, how long, and for whom. @param {Child} left @param {Child} label @param {Child} right @param {string} sentence */
function flow(left, label, right, sentence) {
  return h(
    "div",
    { class: "flow", role: "img", "aria-label": sentence },
    h("div", { class: "flow-end" }, left),
    h("div", { class: "flow-arrow" }, h("span", {}, label), h("i", {})),
    h("div", { class: "flow-end flow-late" }, right),
  );
}

/** @param {string} what @param {string} sub @returns {Child} */
function end(what, sub) {
  return [h("b", {}, capital(what)), h("small", {}, sub)];
}

/** @param {Coupling} c */
function verdict(c) {
  const [late] = c.waited_for;
  const share = c.ranks.find((r) => r.rank === late);
  if (c.state === "waiting" && share !== undefined) {
    const one = c.waited_for.length === 1;
    const why =
      c.cause === "data" ? `wait${one ? "s" : ""} ${duration(share.data_s)} for ${one ? "its" : "their"} data` : `need${one ? "s" : ""} ${duration(share.own_s)} for ${one ? "its" : "their"} own work`;
    const single = c.waiting.length === 1;
    const inside = c.where === null || c.where === "other" ? "" : c.where;
    const [early, waited] = [capital(rankNames(c.waiting)), rankNames(c.waited_for)];
    return flow(
      end(early, inside === "" ? (single ? "waits" : "wait") : single ? `waits in ${inside}` : `wait in ${inside}`),
      [h("b", {}, duration(c.wait_s)), ` of ${duration(share.iteration_s)}`],
      end(rankNames(c.waited_for), why),
      single
        ? `${early} waits ${duration(c.wait_s)} of each iteration for ${waited}`
        : `${early} wait ${duration(c.wait_s)} of each iteration for ${waited}`,
    );
  }
  const words = {
    turns: `The ranks wait ${duration(c.wait_s)} of each iteration for others, now for one and now for another: their data or their work varies from batch to batch.`,
    even: "No rank waits for another for long.",
    apart: `${capital(c.reason)}. Who waits for whom cannot be told from durations.`,
  };
  return h("p", { class: "coupling-words" }, words[/** @type {"even"} */ (c.state)] ?? "");
}

/** @typedef {{key: string, name: string, rank: number|null, tone: string, share: Share, said: string}} Bar */

/** The outliers first. @param {Coupling} c @returns {Bar[]} */
export function barsOf(c) {
  const late = c.ranks.filter((r) => c.waited_for.includes(r.rank));
  const rest = c.ranks.filter((r) => !c.waited_for.includes(r.rank));
  if (c.ranks.length <= MOST_BARS) return [...late.map((r) => bar(r, c)), ...rest.map((r) => bar(r, c))];
  const named = late.slice(0, MOST_OUTLIERS);
  const byWait = [...rest].sort((a, b) => b.others_s - a.others_s || b.data_s - a.data_s);
  const most = c.source === null ? [...rest].sort((a, b) => b.iteration_s - a.iteration_s).slice(0, 2) : byWait.slice(0, 2);
  const others = [...late.slice(MOST_OUTLIERS), ...rest.filter((r) => !most.includes(r))];
  return [...named.map((r) => bar(r, c)), ...most.map((r) => bar(r, c)), together(others)];
}

/** @param {Share} share @param {Coupling} c @returns {Bar} */
function bar(share, c) {
  const late = c.waited_for.includes(share.rank);
  const said = late ? (c.cause === "data" ? `data wait ${duration(share.data_s)}` : `own work ${duration(share.own_s)}`) : c.source === null ? `${duration(share.iteration_s)} each` : `waits ${duration(share.others_s)}`;
  return { key: String(share.rank), name: `rank ${share.rank}`, rank: share.rank, tone: late ? "late" : "", share, said };
}

/** @param {Share[]} shares @returns {Bar} */
function together(shares) {
  const mean = (/** @type {(s: Share) => number} */ of) => shares.reduce((sum, s) => sum + of(s), 0) / shares.length;
  const share = { rank: -1, iteration_s: mean((s) => s.iteration_s), data_s: mean((s) => s.data_s), own_s: mean((s) => s.own_s), others_s: mean((s) => s.others_s), caused_s: 0 };
  return { key: "others", name: `${count(shares.length)} others`, rank: null, tone: "", share, said: `wait ${duration(share.others_s)} on average` };
}

/** @param {Coupling} c @param {Bar[]} bars @param {State} state */
function barRows(c, bars, state) {
  const widest = Math.max(...bars.map((b) => b.share.iteration_s));
  return h(
    "ol",
    { class: "bars" },
    bars.map(({ key, name, rank, tone, share, said }) => {
      const parts = /** @type {const} */ ([["data", "data wait", share.data_s], ["own", "own work", share.own_s], ["others", "waits for other ranks", share.others_s]]);
      const told = parts.map(([, what, s]) => `${what} ${duration(s)}`).join(", ");
      return h(
        "li",
        { key, class: tone },
        rank === null ? h("span", { class: "bar-name" }, name) : h("a", { class: "bar-name", href: routeHash({ run: state.route.run, rank }) }, name),
        h(
          "span",
          { class: "bar", role: "img", "aria-label": `${name}: ${told}`, title: `${told}; ${duration(share.iteration_s)} in all` },
          parts.map(([kind, , s]) => h("i", { key: kind, class: `part-${kind}`, style: { width: `${((100 * Math.max(0, s)) / widest).toFixed(2)}%` } })),
        ),
        h("span", { class: "bar-said" }, said),
      );
    }),
  );
}

/** @param {Coupling} c @param {State} state @param {Actions} act */
function standstill(c, state, act) {
  const waits = c.places.filter((p) => p.collective !== null);
  const others = c.places.filter((p) => p.collective === null);
  const going = isGoing(state.summary);
  return [
    waits.length > 0 && others.length > 0
      ? flow(
          end(rankNames(c.waiting), standsIn(c.waiting.length, [...new Set(waits.map((p) => p.stands))].join(", "))),
          [h("b", {}, duration(c.wait_s)), going ? " so far" : " when last heard of"],
          end(rankNames(c.waited_for), others.map(stand).join(", ")),
          `${capital(rankNames(c.waiting))} wait${c.waiting.length === 1 ? "s" : ""} for ${rankNames(c.waited_for)}`,
        )
      : waits.length > 1
        ? h("p", { class: "coupling-words" }, "Each waits for the others: they are in different collectives.")
        : null,
    c.given_up_in_s !== null && h("p", { class: "countdown" }, icon("bell"), h("span", {}, countdown(c.given_up_in_s, c.timeout_s, going))),
    h(
      "ol",
      { class: "places" },
      c.places.slice(0, MOST_PLACES).map((p, i) => placeRow(p, i, c, state, act)),
      c.places.length > MOST_PLACES && h("li", { class: "place more", key: "more" }, `${plural(c.places.length - MOST_PLACES, "more group")}; the stack of each rank is on its page.`),
    ),
  ];
}

/** Until the collective is given up; of a run that does not report it stands where it stood. @param {number} left_s @param {number|null} timeout_s @param {boolean} going @returns {Child} */
export function countdown(left_s, timeout_s, going) {
  const limit = `timeout ${duration(timeout_s)}`;
  if (!going) return left_s > 0 ? `When last heard of, the collective had ${duration(left_s)} left until it is given up (${limit}).` : `When last heard of, the collective should have been given up already (${limit}).`;
  if (left_s <= 0) return `The collective should have been given up by now (${limit}).`;
  return ["The collective is given up in ", h("b", {}, duration(left_s)), ` (${limit}); then the job dies.`];
}

/** @param {number} ranks @param {string} phase */
const standsIn = (ranks, phase) => (ranks === 1 ? `stands in ${phase}` : `stand in ${phase}`);

/** @param {Place} p */
function stand(p) {
  if (p.state !== "stands") return p.stands;
  const where = /:\d+ in /.test(p.stands) ? p.stands : standsIn(p.ranks.length, p.stands);
  return p.at === null ? where : `${where}, ${p.at}`;
}

/** @param {Place} p @param {number} i @param {Coupling} c @param {State} state @param {Actions} act */
function placeRow(p, i, c, state, act) {
  const all = c.places.reduce((sum, q) => sum + q.ranks.length, 0);
  const few = p.ranks.length <= 4 ? p.ranks : [];
  const id = `place/${p.ranks[0]}`;
  const open = p.stack !== null && (state.open[id] ?? false);
  return h(
    "li",
    { key: id, class: `place${i === 0 ? " odd" : ""}${open ? " is-open" : ""}` },
    h(
      "div",
      { class: "place-head" },
      p.stack === null
        ? h("span", {})
        : h("button", { type: "button", class: "icon-button", "aria-expanded": String(open), "aria-label": `Stack of ${rankNames(p.ranks)}`, title: "Stack", onclick: () => act.open(id, !open) }, icon("right", "chevron")),
      h("span", { class: "place-who" }, few.length > 0 ? few.map((rank) => h("a", { class: "chip", key: rank, href: routeHash({ run: state.route.run, rank }) }, `rank ${rank}`)) : [h("b", {}, plural(p.ranks.length, "rank")), h("small", {}, `${percent(p.ranks.length / all)}: ${rankNames(p.ranks)}`)]),
      h("span", { class: "place-where" }, h("b", {}, p.stands), p.at !== null && h("code", {}, p.at)),
      h("span", { class: "place-for" }, p.for_s === null ? "" : `for ${duration(p.for_s)}`),
    ),
    open && p.stack !== null && stackBody(p.stack, true),
  );
}
