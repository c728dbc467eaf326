// Which rank waits for which: the parts of one iteration, by rank. While the ranks stand still: where each of
// them stands.

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { isGoing, routeHash } from "../store.js";
import { say } from "../texts.js";
import { card } from "./frame.js";
import { empty, marked, withCommas } from "./parts.js";
import { stackBody } from "./stacks.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../types.js").Coupling} Coupling
 * @typedef {import("../types.js").Share} Share
 * @typedef {import("../types.js").Place} Place
 * @typedef {import("../main.js").Actions} Actions
 * @typedef {import("../dom.js").Child} Child
 */

/** Most bars of single ranks. With more ranks, the outliers have bars and the others share one. */
const MOST_BARS = 8;
const MOST_OUTLIERS = 4;
const MOST_PLACES = 8;

/** The card; null for a run of one rank. @param {State} state @param {Actions} act */
export function couplingCard(state, act) {
  if ((state.summary?.world_size ?? 1) < 2) return null;
  /** @type {Coupling|null} */
  const c = state.cards.coupling?.data ?? null;
  const standing = isStanding(state);
  const bars = c === null || standing ? [] : barsOf(c);
  return card(state, {
    id: "coupling",
    title: say("coupling-title", { is: standing ? "standing" : "going" }),
    about:
      c === null || standing || c.iterations === 0
        ? ""
        : say("coupling-about", { span_s: reach(c), iterations: c.iterations, source: c.source }),
    legend:
      bars.length === 0
        ? []
        : [
            { name: say("own-data-wait"), color: "c-wait" },
            { name: say("own-work"), color: "c-backward" },
            ...(c?.source ? [{ name: say("waits-for-other-ranks"), color: "c-others", hatch: true }] : []),
          ],
    height: "152px",
    body:
      c === null
        ? null
        : h(
            "div",
            { class: "coupling" },
            standing ? standstill(c, state, act) : [verdict(c), bars.length > 0 && barRows(c, bars, state)],
          ),
    empty:
      c !== null && !standing && c.state === "unknown"
        ? empty(say("not-known-yet"), say("coupling-unknown", { reason: capital(c.reason) }))
        : null,
  });
}

/** The seconds that the bars cover. Slow iterations reach back further than the tiles. @param {Coupling} c */
function reach(c) {
  const [first] = c.ranks;
  const span_s = c.iterations * (first?.iteration_s ?? 0);
  return span_s > 33 ? Math.round(span_s) : 30;
}

/** Whether the ranks stand still now. Then the card belongs to the answer. @param {State} state */
export function isStanding(state) {
  return state.cards.coupling?.data?.state === "standing";
}

/** Ranks as parameters of a message. @param {number[]} ranks */
const listed = (ranks) => ({ number: ranks.length, ranks: ranks.join(" ") });

/** "rank 1", "ranks 0, 2 and 3", "ranks 0, 1, 2 and 252 more". @param {number[]} ranks */
export const rankNames = (ranks) => say("ranks-named", listed(ranks));

/** The same with a capital letter. @param {number[]} ranks */
const rankNamesFirst = (ranks) => say("ranks-named-first", listed(ranks));

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * The waiting ranks, the wait, and the late ranks.
 * @param {Child} left @param {Child} label @param {Child} right @param {string} sentence
 */
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
  return [h("b", {}, what), h("small", {}, sub)];
}

/** @param {Coupling} c */
function verdict(c) {
  const [late] = c.waited_for;
  const share = c.ranks.find((r) => r.rank === late);
  if (c.state === "waiting" && share !== undefined) {
    const phase = c.where === "other" ? null : c.where;
    return flow(
      end(rankNamesFirst(c.waiting), say("coupling-early", { early: c.waiting.length, phase })),
      marked(say("coupling-wait", { wait_s: c.wait_s, iteration_s: share.iteration_s })),
      end(
        rankNamesFirst(c.waited_for),
        say("coupling-late", {
          late: c.waited_for.length,
          cause: c.cause,
          takes_s: c.cause === "data" ? share.data_s : share.own_s,
        }),
      ),
      say("coupling-sentence", {
        ...listed(c.waiting),
        wait_s: c.wait_s,
        waited_for: rankNames(c.waited_for),
      }),
    );
  }
  const words = {
    turns: say("coupling-turns", { wait_s: c.wait_s }),
    even: say("coupling-even"),
    apart: say("coupling-apart", { reason: capital(c.reason) }),
  };
  return h("p", { class: "coupling-words" }, words[/** @type {"even"} */ (c.state)] ?? "");
}

/** @typedef {{key: string, name: string, rank: number|null, tone: string, share: Share, said: string}} Bar */

/** The bars, outliers first. @param {Coupling} c @returns {Bar[]} */
export function barsOf(c) {
  const late = c.ranks.filter((r) => c.waited_for.includes(r.rank));
  const rest = c.ranks.filter((r) => !c.waited_for.includes(r.rank));
  if (c.ranks.length <= MOST_BARS) return [...late.map((r) => bar(r, c)), ...rest.map((r) => bar(r, c))];
  const named = late.slice(0, MOST_OUTLIERS);
  const byWait = [...rest].sort((a, b) => b.others_s - a.others_s || b.data_s - a.data_s);
  const slowest =
    c.source === null
      ? [...rest].sort((a, b) => b.iteration_s - a.iteration_s).slice(0, 2)
      : byWait.slice(0, 2);
  const others = [...late.slice(MOST_OUTLIERS), ...rest.filter((r) => !slowest.includes(r))];
  return [...named.map((r) => bar(r, c)), ...slowest.map((r) => bar(r, c)), together(others)];
}

/** @param {Share} share @param {Coupling} c @returns {Bar} */
function bar(share, c) {
  const late = c.waited_for.includes(share.rank);
  const text = late
    ? c.cause === "data"
      ? say("coupling-bar", { is: "late-data", takes_s: share.data_s })
      : say("coupling-bar", { is: "late-work", takes_s: share.own_s })
    : c.source === null
      ? say("coupling-bar", { is: "unmeasured", takes_s: share.iteration_s })
      : say("coupling-bar", { is: "waiting", takes_s: share.others_s });
  return {
    key: String(share.rank),
    name: say("rank-number", { rank: share.rank }),
    rank: share.rank,
    tone: late ? "late" : "",
    share,
    said: text,
  };
}

/** @param {Share[]} shares @returns {Bar} */
function together(shares) {
  const mean = (/** @type {(s: Share) => number} */ of) =>
    shares.reduce((sum, s) => sum + of(s), 0) / shares.length;
  const share = {
    rank: -1,
    iteration_s: mean((s) => s.iteration_s),
    data_s: mean((s) => s.data_s),
    own_s: mean((s) => s.own_s),
    others_s: mean((s) => s.others_s),
    caused_s: 0,
  };
  return {
    key: "others",
    name: say("coupling-others", { number: shares.length }),
    rank: null,
    tone: "",
    share,
    said: say("coupling-bar", { is: "several", takes_s: share.others_s }),
  };
}

/** @param {Coupling} c @param {Bar[]} bars @param {State} state */
function barRows(c, bars, state) {
  const widest = Math.max(...bars.map((b) => b.share.iteration_s));
  return h(
    "ol",
    { class: "bars" },
    bars.map(({ key, name, rank, tone, share, said }) => {
      const parts = /** @type {const} */ ([
        ["data", share.data_s],
        ["own", share.own_s],
        ["others", share.others_s],
      ]);
      const { data_s, own_s, others_s, iteration_s } = share;
      return h(
        "li",
        { key, class: tone },
        rank === null
          ? h("span", { class: "bar-name" }, name)
          : h("a", { class: "bar-name", href: routeHash({ run: state.route.run, rank }) }, name),
        h(
          "span",
          {
            class: "bar",
            role: "img",
            "aria-label": say("coupling-bar-label", { name, data_s, own_s, others_s }),
            title: say("coupling-bar-title", { data_s, own_s, others_s, iteration_s }),
          },
          parts.map(([kind, s]) =>
            h("i", {
              key: kind,
              class: `part-${kind}`,
              style: { width: `${((100 * Math.max(0, s)) / widest).toFixed(2)}%` },
            }),
          ),
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
          end(
            rankNamesFirst(c.waiting),
            say("stands-in", {
              number: c.waiting.length,
              place: withCommas([...new Set(waits.map(placeName))]),
            }),
          ),
          marked(say("standing-since", { wait_s: c.wait_s, going })),
          end(rankNamesFirst(c.waited_for), withCommas(others.map(stand))),
          say("standing-sentence", { ...listed(c.waiting), waited_for: rankNames(c.waited_for) }),
        )
      : waits.length > 1
        ? h("p", { class: "coupling-words" }, say("standing-each-for-others"))
        : null,
    c.given_up_in_s !== null &&
      h(
        "p",
        { class: "countdown" },
        icon("bell"),
        h("span", {}, countdown(c.given_up_in_s, c.timeout_s, going)),
      ),
    h(
      "ol",
      { class: "places" },
      c.places.slice(0, MOST_PLACES).map((p, i) => placeRow(p, i, c, state, act)),
      c.places.length > MOST_PLACES &&
        h(
          "li",
          { class: "place more", key: "more" },
          say("places-left-out", { places: c.places.length - MOST_PLACES }),
        ),
    ),
  ];
}

/**
 * The time until the collective times out. Without reports from the run, the time does not count down.
 * @param {number} left_s @param {number|null} timeout_s @param {boolean} going @returns {Child}
 */
export function countdown(left_s, timeout_s, going) {
  if (!going)
    return left_s > 0
      ? say("collective-ended-unheard", { left_s, timeout_s })
      : say("collective-was-over", { timeout_s });
  return left_s > 0
    ? marked(say("collective-ends", { left_s, timeout_s }))
    : say("collective-is-over", { timeout_s });
}

/** A phase, a call or a line of code; for other ranks what is known about them. @param {Place} p */
const placeName = (p) =>
  p.state === "stands" ? say("phase-name", { phase: p.stands }) : say("place-of-ranks", { state: p.state });

/** @param {Place} p */
function stand(p) {
  if (p.state !== "stands") return placeName(p);
  const where = /:\d+ in /.test(p.stands)
    ? p.stands
    : say("stands-in", { number: p.ranks.length, place: placeName(p) });
  return withCommas([where, p.at ?? ""]);
}

/** @param {Place} p @param {number} i @param {Coupling} c @param {State} state @param {Actions} act */
function placeRow(p, i, c, state, act) {
  const rankCount = c.places.reduce((sum, q) => sum + q.ranks.length, 0);
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
        : h(
            "button",
            {
              type: "button",
              class: "icon-button",
              "aria-expanded": String(open),
              "aria-label": say("stack-of-ranks", listed(p.ranks)),
              title: say("stack"),
              onclick: () => act.open(id, !open),
            },
            icon("right", "chevron"),
          ),
      h(
        "span",
        { class: "place-who" },
        few.length > 0
          ? few.map((rank) =>
              h(
                "a",
                { class: "chip", key: rank, href: routeHash({ run: state.route.run, rank }) },
                say("rank-number", { rank }),
              ),
            )
          : [
              h("b", {}, say("ranks-counted", { ranks: p.ranks.length })),
              h(
                "small",
                {},
                say("place-share", { share_ratio: p.ranks.length / rankCount, ...listed(p.ranks) }),
              ),
            ],
      ),
      h("span", { class: "place-where" }, h("b", {}, placeName(p)), p.at !== null && h("code", {}, p.at)),
      h("span", { class: "place-for" }, p.for_s === null ? "" : say("for-so-long", { lasted_s: p.for_s })),
    ),
    open && p.stack !== null && stackBody(p.stack, true),
  );
}
