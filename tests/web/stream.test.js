import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { ApiError, withQuery } from "../../web/js/api.js";
import { Stream, backoff, failure } from "../../web/js/stream.js";

/** @type {FakeSource[]} */
let sources = [];

class FakeSource {
  /** @param {string} url */
  constructor(url) {
    this.url = url;
    this.closed = false;
    /** @type {Record<string, (event: any) => void>} */
    this.on = {};
    /** @type {() => void} */
    this.onerror = () => {};
    sources.push(this);
  }
  /** @param {string} name @param {(event: any) => void} f */
  addEventListener(name, f) {
    this.on[name] = f;
  }
  close() {
    this.closed = true;
  }
}

/** The server's answer to the ordinary call after a failure. */
let status = 200;
const settle = async () => {
  for (let i = 0; i < 30; i += 1) await Promise.resolve();
};

beforeEach(() => {
  sources = [];
  status = 200;
  mock.timers.enable({ apis: ["setTimeout"] });
  /** @type {any} */ (globalThis).EventSource = FakeSource;
  mock.method(globalThis, "fetch", async () => {
    if (status === 0) throw new TypeError("refused");
    return new Response(JSON.stringify({ error: "no" }), { status });
  });
});
afterEach(() => {
  mock.timers.reset();
  mock.restoreAll();
});

const follow = async () => {
  /** @type {any[]} */
  const seen = [];
  const stream = new Stream("a b", {
    message: (m) => seen.push(m),
    still: () => seen.push("still"),
    link: (l) => seen.push(l),
  });
  await settle();
  return { stream, seen };
};

test("backoff doubles and has a ceiling", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 9].map(backoff), [0.5, 1, 2, 4, 8, 8]);
});

test("what a failure means", () => {
  assert.equal(failure(new ApiError(401, "")), "unauthorized");
  assert.equal(failure(new ApiError(404, "")), "gone");
  assert.equal(failure(new ApiError(500, "")), "stale");
  assert.equal(failure(new TypeError("x")), "stale");
});

test("messages arrive parsed, the run's name is escaped", async () => {
  const { seen } = await follow();
  assert.equal(sources[0]?.url, "/api/v1/runs/a%20b/events?changes=true");
  sources[0]?.on.snapshot?.({ data: '{"newest_at": 1}' });
  sources[0]?.on.tick?.({ data: '{"newest_at": 2}' });
  assert.deepEqual(seen, [{ newest_at: 1 }, { newest_at: 2 }]);
});

test("a server that has nothing new is heard all the same", async () => {
  const { seen } = await follow();
  sources[0]?.on.still?.({ data: "{}" });
  assert.deepEqual(seen, ["still"]);
});

test("a lost server is called stale and tried again, one listener at a time", async () => {
  const { seen } = await follow();
  status = 0;
  sources[0]?.onerror();
  await settle();
  assert.deepEqual(seen, ["stale"]);
  assert.equal(sources[0]?.closed, true);
  assert.equal(sources.length, 1);
  mock.timers.tick(500);
  await settle();
  assert.equal(sources.length, 2);
  sources[1]?.onerror();
  await settle();
  mock.timers.tick(900);
  await settle();
  assert.equal(sources.length, 2); // the second wait is longer
  mock.timers.tick(200);
  await settle();
  assert.equal(sources.length, 3);
  sources[2]?.on.snapshot?.({ data: "{}" });
  sources[2]?.onerror();
  await settle();
  mock.timers.tick(500); // success resets the wait
  await settle();
  assert.equal(sources.length, 4);
});

test("signed out is said, and tried again", async () => {
  const { seen } = await follow();
  status = 401;
  sources[0]?.onerror();
  await settle();
  assert.deepEqual(seen, ["unauthorized"]);
  mock.timers.tick(500);
  await settle();
  assert.equal(sources.length, 2);
});

test("a deleted run is not asked for again", async () => {
  const { seen } = await follow();
  sources[0]?.on.gone?.({});
  sources[0]?.onerror();
  await settle();
  mock.timers.tick(60_000);
  await settle();
  assert.deepEqual(seen, ["gone"]);
  assert.equal(sources.length, 1);
});

test("closing stops everything", async () => {
  const { stream, seen } = await follow();
  sources[0]?.onerror();
  stream.close();
  await settle();
  mock.timers.tick(60_000);
  await settle();
  assert.deepEqual(seen, []);
  assert.equal(sources.length, 1);
});

test("queries leave out what is not known", () => {
  assert.equal(withQuery("/x", { a: 0, b: null, c: undefined, d: "ä b" }), "/x?a=0&d=%C3%A4%20b");
  assert.equal(withQuery("/x", {}), "/x");
  assert.equal(
    withQuery("/x", { metric: ["wait_s", "step_s"], rank: null }),
    "/x?metric=wait_s&metric=step_s",
  );
});
