// The frame of every page: top bar, range bar, chart cards with their states, keyboard help.

import { h } from "../dom.js";
import { downloadButtons } from "../downloads.js";
import { clock, clockBare } from "../format.js";
import { icon, logo } from "../icons.js";
import { nearest } from "../similar_runs.js";
import { pageLanguage } from "../reader.js";
import { readingOf } from "../reading.js";
import { active, isGoing, routeHash, serverNow } from "../store.js";
import { say } from "../texts.js";
import { zoneName } from "../zone.js";
import { button, empty, skeleton } from "./parts.js";
import { rankChoice } from "./ranks.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../store.js").CardData} CardData
 * @typedef {import("../main.js").Actions} Actions
 * @typedef {import("../dom.js").Child} Child
 * @typedef {{name: string, color: string, value?: string, dash?: boolean, hatch?: boolean}} LegendItem
 */

/** @param {State} state @param {Actions} act */
export function topBar(state, act) {
  const { route } = state;
  return h(
    "header",
    { class: "top" },
    h(
      "a",
      { class: "brand", href: "#/", "aria-label": say("brand-link") },
      logo(),
      h("span", {}, "loaderwatch"),
    ),
    crumbs(state),
    route.run !== null && linkPill(state, act),
    h(
      "button",
      {
        type: "button",
        class: "zone",
        title: say("zone-switch", { utc: state.utc }),
        "aria-pressed": String(state.utc),
        "aria-label": say("zone-now", { zone: zoneName(serverNow(state)) }),
        onclick: act.toggleUtc,
      },
      zoneName(serverNow(state)),
    ),
    route.run !== null &&
      h(
        "button",
        {
          type: "button",
          class: "icon-button",
          title: say("attention-switch", { on: state.attention }),
          "aria-pressed": String(state.attention),
          "aria-label": say("attention"),
          onclick: act.toggleAttention,
        },
        icon(state.attention ? "bell" : "silent"),
      ),
    h(
      "button",
      {
        type: "button",
        class: "icon-button",
        title: say("bar-theme", { theme: state.theme }),
        "aria-label": say("bar-theme-change", { theme: state.theme }),
        onclick: act.nextTheme,
      },
      icon(state.theme === "auto" ? "auto" : state.theme === "dark" ? "moon" : "sun"),
    ),
    h(
      "button",
      {
        type: "button",
        class: "zone",
        lang: pageLanguage() === "zh" ? "en" : "zh-CN",
        title: "Language / 语言 (l)",
        "aria-label": "English / 中文",
        onclick: act.nextLanguage,
      },
      pageLanguage() === "zh" ? "EN" : "中文",
    ),
    h(
      "button",
      {
        type: "button",
        class: "icon-button",
        title: say("keyboard-help"),
        "aria-label": say("keyboard-shortcuts"),
        "aria-expanded": String(state.help),
        onclick: act.toggleHelp,
      },
      icon("help"),
    ),
  );
}

/** The path to this page: runs, run, rank. @param {State} state */
function crumbs(state) {
  const { route, summary } = state;
  return h(
    "nav",
    { class: "crumbs", "aria-label": say("where-you-are") },
    route.page === "compare" && [
      h("a", { href: "#/" }, say("runs")),
      h("span", { class: "sep", "aria-hidden": "true" }, "/"),
      h("span", { class: "here" }, say("crumb-two-runs")),
    ],
    route.run !== null && [
      h("a", { href: "#/" }, say("runs")),
      h("span", { class: "sep", "aria-hidden": "true" }, "/"),
    ],
    route.run !== null &&
      (route.rank === null
        ? h("span", { class: "here" }, summary?.name ?? route.run)
        : [
            h("a", { href: routeHash({ run: route.run }) }, summary?.name ?? route.run),
            h("span", { class: "sep", "aria-hidden": "true" }, "/"),
            h("span", { class: "here" }, say("rank-number", { rank: route.rank })),
          ]),
  );
}

/** How current the page is, in a word. @param {State} state */
export function freshness(state) {
  const running = isGoing(state.summary);
  const age = state.ticked_at === null ? null : Math.max(0, state.clock - state.ticked_at);
  if (state.link === "gone")
    return { tone: "gone", text: say(state.summary === null ? "run-not-found" : "run-was-deleted") };
  if (state.link === "unauthorized") return { tone: "gone", text: say("signed-out") };
  if (state.link === "stale")
    return {
      tone: "stale",
      text: age === null ? say("no-connection") : say("page-is-stale", { age_s: Math.round(age) }),
    };
  if (state.link === "connecting") return { tone: "connecting", text: say("connecting") };
  if (state.paused) return { tone: "paused", text: say("paused") };
  return running ? { tone: "live", text: say("live") } : { tone: "done", text: say("up-to-date") };
}

/** @param {State} state @param {Actions} act */
function linkPill(state, act) {
  const { tone, text } = freshness(state);
  const pausable = tone === "live" || tone === "paused";
  return h(
    "button",
    {
      type: "button",
      class: `link-pill link-${tone}`,
      disabled: !pausable,
      title: pausable ? say(state.paused ? "resume" : "pause") : text,
      onclick: act.togglePause,
    },
    tone === "paused" ? icon("play") : h("i", { class: "dot", "aria-hidden": "true" }),
    h("span", {}, text),
  );
}

/** Time ranges to click, in seconds up to now; null: all. The message `range-span` names them. */
const SPANS = [300, 900, 3600, null];

/** @param {State} state @param {Actions} act */
export function rangeBar(state, act) {
  const s = state.summary;
  if (s === null) return null;
  const { view } = state;
  const now = serverNow(state);
  const running = isGoing(s);
  const alerts = active(state.findings)
    .filter((f) => state.route.rank === null || f.rank === null || f.rank === state.route.rank)
    .length;
  return h(
    "div",
    { class: "range-bar", key: "range", role: "toolbar", "aria-label": say("range-of-charts") },
    h("span", { class: "range-label" }, say("range-last", { going: running })),
    h(
      "div",
      { class: "segments" },
      SPANS.map((span) => {
        const on = span === null ? view.kind === "all" : view.kind === "last" && view.span_s === span;
        return h(
          "button",
          {
            type: "button",
            key: span ?? "all",
            class: on ? "on" : "",
            "aria-pressed": String(on),
            onclick: () => act.view(span === null ? { kind: "all" } : { kind: "last", span_s: span }),
          },
          say("range-span", { span }),
        );
      }),
    ),
    view.kind === "fixed" &&
      h(
        "button",
        { type: "button", class: "chip zoom", onclick: act.resetZoom, title: say("range-back") },
        `${clockBare(view.start, now)} – ${clock(view.end, now)}`,
        icon("close"),
      ),
    state.route.page === "run" && s.rank_count > 1 && rankChoice(state, act),
    h("span", { class: "range-hint" }, say("range-hint")),
    h(
      "button",
      { type: "button", class: "button to-alerts", onclick: act.toAlerts },
      h("span", {}, say("open-alerts", { alerts })),
    ),
  );
}

/**
 * A card around a chart or table: its title, description and state.
 * @param {State} state
 * @param {{id: string, title: string, about: Child, legend?: LegendItem[], body: Child, height: string,
 *   empty?: Child|null, extra?: Child, flush?: boolean, badge?: string, reads?: boolean}} card - `reads`: its
 *   legend shows values of series
 */
export function card(state, card) {
  const held = state.cards[card.id];
  const waiting = held === undefined || (held.data === null && held.error === null);
  const failed = held !== undefined && held.data === null && held.error !== null;
  const old = state.link === "stale" || (held?.data && held.error !== null);
  const mode =
    state.link === "gone" ? "gone" : waiting ? "loading" : failed ? "failed" : old ? "stale" : "live";
  return h(
    "section",
    {
      class: `card is-${mode}${card.flush ? " flush" : ""}`,
      key: card.id,
      "data-card": card.id,
      "aria-label": card.title,
      "aria-busy": waiting ? "true" : null,
    },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, card.title),
      card.badge ? h("span", { class: "badge simulated" }, card.badge) : null,
      h("p", { class: "card-about" }, card.about),
      mode === "stale" && h("span", { class: "card-state", role: "status" }, staleText(state, held)),
      mode === "gone" && h("span", { class: "card-state" }, say("card-is-gone")),
      card.extra,
      (mode === "live" || mode === "stale") && isPlot(card.body) && !card.empty && downloadButtons(card.id),
    ),
    card.legend &&
      card.legend.length > 0 &&
      !waiting &&
      !failed &&
      legend(card.legend, card.reads ? readingOf(state) : ""),
    failed
      ? empty(say("could-not-be-loaded"), say("trying-again", { error: held?.error }))
      : waiting
        ? skeleton(card.height)
        : card.empty
          ? card.empty
          : card.body,
  );
}

/** @param {State} state @param {CardData|undefined} held */
function staleText(state, held) {
  return say("card-is-stale", {
    age_s: held === undefined ? null : Math.max(1, Math.round(state.clock - held.loaded_at)),
  });
}

/** @param {LegendItem[]} items @param {string} of - what its values are of */
function legend(items, of) {
  return h(
    "ul",
    { class: "legend" },
    items.map((item) =>
      h(
        "li",
        { key: item.name },
        h("i", {
          class: item.dash ? "dash" : item.hatch ? "hatch" : "",
          style: { "--swatch": `var(--${item.color})` },
          "aria-hidden": "true",
        }),
        item.name,
        item.value !== undefined && h("b", {}, item.value),
      ),
    ),
    of !== "" && h("li", { key: "of", class: "legend-of" }, of),
  );
}

/** @param {Child} body */
const isPlot = (body) => /** @type {any} */ (body)?.props?.class === "plot";

/** The element for a chart. @param {string} id @param {string} height @param {string} label */
export function plot(id, height, label) {
  return h("div", {
    class: "plot",
    id: `plot-${id}`,
    key: id,
    opaque: true,
    style: { height },
    role: "img",
    "aria-label": label,
  });
}

/** Shortcuts, named by the messages `shortcut-keys` and `shortcut-does`. */
const SHORTCUTS = [
  "list",
  "open",
  "up",
  "ranks",
  "ranges",
  "pause",
  "alerts",
  "theme",
  "zone",
  "language",
  "attention",
  "help",
];

/** @param {Actions} act */
export function helpDialog(act) {
  return h(
    "div",
    { class: "overlay", key: "help", onclick: act.toggleHelp },
    h(
      "div",
      {
        class: "dialog",
        role: "dialog",
        "aria-modal": "true",
        "aria-label": say("keyboard-shortcuts"),
        tabindex: "-1",
        onclick: (/** @type {Event} */ e) => e.stopPropagation(),
      },
      h(
        "div",
        { class: "card-head" },
        h("h2", {}, say("keyboard")),
        h(
          "button",
          { type: "button", class: "icon-button", "aria-label": say("close"), onclick: act.toggleHelp },
          icon("close"),
        ),
      ),
      h(
        "dl",
        { class: "keys" },
        SHORTCUTS.map((shortcut) =>
          h(
            "div",
            {},
            h("dt", {}, h("kbd", {}, say("shortcut-keys", { shortcut }))),
            h("dd", {}, say("shortcut-does", { shortcut })),
          ),
        ),
      ),
    ),
  );
}

/** The sign-in form, or the page of an unknown run or attempt. @param {State} state @param {Actions} act */
export function blocked(state, act) {
  return state.link === "unauthorized" ? signInForm(state, act) : unknown(state, act);
}

/** The token is not sent: `session.js` derives a key from it. @param {State} state @param {Actions} act */
function signInForm(state, act) {
  const { sign_in } = state;
  return empty(
    say(sign_in.before ? "you-are-signed-out" : "token-needed"),
    say(sign_in.before ? "you-are-signed-out-why" : "token-needed-why"),
    h(
      "form",
      { class: "sign-in", onsubmit: act.signIn },
      h("label", { for: "token" }, say("token")),
      h("input", {
        id: "token",
        name: "token",
        type: "password",
        autocomplete: "current-password",
        required: "",
        "aria-describedby": sign_in.problem === "" ? null : "problem",
      }),
      h("button", { class: "button primary" }, say("sign-in")),
      sign_in.problem !== "" && h("p", { id: "problem", role: "alert" }, sign_in.problem),
    ),
    "h1",
  );
}

/** The page of an unknown run or attempt, with known ones. @param {State} state @param {Actions} act */
function unknown(state, act) {
  const { run, attempt } = state.route;
  const row = (state.runs ?? []).find((r) => r.run_id === run);
  if (row !== undefined && attempt !== null)
    return empty(
      say("no-such-attempt", { attempt, run }),
      say("attempts-had", { attempts: row.attempts }),
      h("a", { class: "button primary", href: routeHash({ run }) }, say("to-its-newest")),
      "h1",
    );
  const near = nearest(run ?? "", state.runs ?? []);
  return empty(
    say("no-such-run", { run }),
    say("no-such-run-why"),
    [
      near.length > 0 &&
        h(
          "div",
          { class: "near" },
          h("p", { id: "near" }, say("did-you-mean")),
          h(
            "ul",
            { "aria-labelledby": "near" },
            near.map((r) =>
              h(
                "li",
                { key: r.run_id },
                h("a", { href: routeHash({ run: r.run_id }), "data-nav": true }, r.run_id),
                h("small", {}, r.name),
              ),
            ),
          ),
        ),
      button(say("all-runs"), () => act.go("#/"), { class: "button primary" }),
    ],
    "h1",
  );
}
