import assert from "node:assert/strict";
import { test } from "node:test";
import { Attention, news, title, tone } from "../../web/js/attention.js";
import { textOf } from "../../web/js/dom.js";
import { hangCard } from "../../web/js/panels/alerts.js";
import { verdictBanner } from "../../web/js/panels/verdict.js";
import { initialState, parseRoute } from "../../web/js/store.js";
import { finding, summary } from "./shapes.js";

const at = (more = {}) => ({
  ...initialState(),
  route: parseRoute("#/runs/r"),
  summary: summary(),
  link: /** @type {const} */ ("live"),
  clock: 1600,
  attention: true,
  ...more,
});

const looker = () => {
  /** @type {string[]} */
  const told = [];
  /** @type {string[]} */
  const shown = [];
  const attention = new Attention({
    show: (text, mark) => shown.push(`${mark} ${text}`),
    tell: (one) => told.push(`${one.grave ? "!" : ""}${one.title}`),
  });
  return { attention, told, shown };
};

test("the title counts unacknowledged alerts, and the icon shows their severity", () => {
  assert.equal(title({ ...initialState() }), "loaderwatch");
  assert.equal(
    title(at({ findings: [finding(), finding({ id: "b", state: "acknowledged" })] })),
    "(1) train.py · loaderwatch",
  );
  assert.equal(title(at({ link: "stale", findings: [finding()] })), "(stale) train.py · loaderwatch");
  assert.equal(tone(at({ findings: [] })), "quiet");
  assert.equal(tone(at({ findings: [finding()] })), "warning");
  assert.equal(tone(at({ findings: [finding({ severity: "critical" })] })), "critical");
  assert.equal(tone(at({ summary: summary({ state: "lost" }) })), "warning");
  assert.equal(
    tone(
      at({
        summary: summary({
          state: "crashed",
          verdict: { severity: "critical", title: "It died", advice: "", finding_id: null },
        }),
      }),
    ),
    "critical",
  );
  const stopped = at({
    findings: [],
    summary: summary({
      state: "crashed",
      verdict: { severity: "info", title: "Stopped by SIGTERM.", advice: "", finding_id: null },
    }),
  });
  assert.deepEqual([tone(stopped), news(stopped)], ["quiet", []]);
  assert.equal(tone(at({ link: "stale" })), "stale");
});

test("each alert notifies once, and not if it existed when the page opened", () => {
  const { attention, told } = looker();
  attention.look(at({ findings: [finding({ id: "old", title: "Old" })] }));
  assert.deepEqual(told, []);
  const both = [finding({ id: "old", title: "Old" }), finding({ id: "new", title: "New" })];
  attention.look(at({ findings: both }));
  attention.look(at({ findings: both }));
  assert.deepEqual(told, ["New"]);
  attention.look(at({ findings: [finding({ id: "new", title: "Worse", severity: "critical" })] }));
  assert.deepEqual(told, ["New", "!Worse"], "a warning that became critical is news");
  attention.look(
    at({
      findings: [finding({ id: "seen", state: "acknowledged" }), finding({ id: "remark", severity: "info" })],
    }),
  );
  assert.equal(told.length, 2);
  attention.look(at({ findings: [], summary: summary({ state: "lost" }) }));
  attention.look(
    at({
      findings: [],
      summary: summary({
        state: "crashed",
        verdict: { severity: "critical", title: "It died", advice: "", finding_id: null },
      }),
    }),
  );
  assert.deepEqual(told.slice(2), ["Lost contact with train.py", "!It died"]);
});

test("a reader who did not ask is never notified, also not afterwards", () => {
  const { attention, told, shown } = looker();
  attention.look(at({ attention: false }));
  attention.look(at({ attention: false, findings: [finding()] }));
  attention.look(at({ findings: [finding()] }));
  assert.deepEqual(told, []);
  assert.deepEqual(
    shown,
    ["quiet train.py · loaderwatch", "warning (1) train.py · loaderwatch"],
    "written when it changes",
  );
});

test("a hang that is not found any more is no longer called frozen", () => {
  const hang = finding({
    code: "hung",
    severity: "critical",
    title: "Rank 1 has been frozen",
    recovering: true,
  });
  const card = textOf(hangCard(hang, at({ findings: [hang], clock: 9999 }), /** @type {any} */ ({})));
  assert.match(card, /Recovered, watching/);
  assert.doesNotMatch(card, /Frozen|no progress/);
  const verdict = summary({
    verdict: { severity: "critical", title: hang.title, advice: "", finding_id: hang.id },
  });
  assert.match(
    textOf(verdictBanner(verdict, [hang])),
    /^ *Recovered, watching whether it lasts\. Before: Rank 1 has been frozen/,
  );
  assert.doesNotMatch(textOf(verdictBanner(verdict, [{ ...hang, recovering: false }])), /Recovered/);
});
