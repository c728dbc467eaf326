import assert from "node:assert/strict";
import { test } from "node:test";
import { longestRise, pair } from "../../web/js/dom.js";

/** How many of the kept nodes must move. @param {string[]} there @param {string[]} wanted */
const moved = (there, wanted) => {
  const places = pair(there, wanted);
  return places.filter((place) => place >= 0).length - longestRise(places).size;
};
const rows = (/** @type {string} */ keys) => [...keys].map((key) => `tr/${key}`);

test("a list that loses, gains or changes one: nothing else is touched", () => {
  assert.deepEqual(pair(rows("abcd"), rows("bcd")), [1, 2, 3]);
  assert.deepEqual(pair(rows("bcd"), rows("abcd")), [-1, 0, 1, 2]);
  assert.deepEqual(pair(rows("abcd"), rows("abxcd")), [0, 1, -1, 2, 3]);
  for (const wanted of ["bcd", "abc", "acd", "xabcd", "abcdx", "xbcd"])
    assert.equal(moved(rows("abcd"), rows(wanted)), 0, wanted);
});

test("a list in another order: the fewest are moved", () => {
  assert.equal(moved(rows("abcd"), rows("bcda")), 1);
  assert.equal(moved(rows("abcd"), rows("dabc")), 1);
  assert.equal(moved(rows("abcdef"), rows("badcfe")), 3);
  assert.equal(moved(rows("abcd"), rows("dcba")), 3);
});

test("nodes without a key are drawn into existing ones, in their order", () => {
  assert.deepEqual(pair(["p", "div", "section"], ["div", "section"]), [1, 2]);
  assert.deepEqual(pair(["div", "section"], ["p", "div", "section"]), [-1, 0, 1]);
  assert.deepEqual(pair(["#", "b", "#"], ["#"]), [0]);
  assert.deepEqual(pair(["p", "ul", "div/a", "p"], ["ul", "div/a", "div/b", "p"]), [1, 2, -1, 3]);
});

test("no node is drawn into twice, whatever the keys are", () => {
  assert.deepEqual(pair(["li/x", "li/x"], ["li/x", "li/x", "li/x"]), [0, 1, -1]);
  assert.deepEqual(pair(["li/x"], ["a", "li/x", "li/x"]), [-1, -1, 0]);
  assert.deepEqual(pair(["", "p"], ["p", "p"]), [-1, 1], "what is not ours is nobody's");
});
