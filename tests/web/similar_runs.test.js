import assert from "node:assert/strict";
import { test } from "node:test";
import { distance, nearest } from "../../web/js/similar_runs.js";
import { blocked, freshness } from "../../web/js/panels/frame.js";
import { textOf } from "../../web/js/dom.js";
import { initialState, parseRoute } from "../../web/js/store.js";

/** @param {string} run_id @param {string} name @param {any} [more] @returns {any} */
const run = (run_id, name, more = {}) => ({ run_id, name, started_at: 1, attempts: 1, ...more });

test("the distance of words", () => {
  assert.equal(distance("", "abc"), 3);
  assert.equal(distance("kitten", "sitting"), 3);
  assert.equal(distance("same", "same"), 0);
});

test("near names: a slip, a beginning, the script's name; nothing that is far", () => {
  const runs = [
    run("digits-cnn-7f3a", "digits_cnn.py"),
    run("resnet-51aa", "resnet.py", { started_at: 2 }),
    run("resnet-90fe", "resnet.py"),
  ];
  const ids = (/** @type {string} */ typed) => nearest(typed, runs).map((r) => r.run_id);
  assert.deepEqual(ids("digits-cnn-7f3b"), ["digits-cnn-7f3a"]);
  assert.deepEqual(ids("DIGITS"), ["digits-cnn-7f3a"]);
  assert.deepEqual(ids("resnet"), ["resnet-51aa", "resnet-90fe"], "the newest first");
  assert.deepEqual(ids("resent.py"), ["resnet-51aa", "resnet-90fe"]);
  assert.deepEqual(ids("bert-0001"), []);
});

test("an address that leads nowhere says so, and what may have been meant", () => {
  const runs = [run("digits-cnn-7f3a", "digits_cnn.py", { attempts: 2 })];
  const at = (/** @type {string} */ hash) => ({
    ...initialState(),
    route: parseRoute(hash),
    link: /** @type {const} */ ("gone"),
    runs,
  });
  const told = textOf(blocked(at("#/runs/digits-cnn-7f3x"), /** @type {any} */ ({})));
  assert.match(told, /There is no run digits-cnn-7f3x here.*Did you mean.*digits-cnn-7f3a.*digits_cnn\.py/s);
  assert.doesNotMatch(textOf(blocked(at("#/runs/other"), /** @type {any} */ ({}))), /Did you mean/);
  assert.match(
    textOf(blocked(at("#/runs/digits-cnn-7f3a/attempts/7"), /** @type {any} */ ({}))),
    /There is no attempt 7 of digits-cnn-7f3a *It has had 2.attempts/s,
  );
  assert.equal(freshness(at("#/runs/other")).text, "Not found");
});
