import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { beforeEach, mock, test } from "node:test";
import { ApiError, call } from "../../web/js/api.js";
import { signIn } from "../../web/js/session.js";

const TOKEN = "owner-token";
const TICKET = "1-2-3";

/** @param {string|Buffer} key @param {string} text */
const mac = (key, text) => createHmac("sha256", key).update(text).digest();
const key = mac(TOKEN, `loaderwatch page session\n${TICKET}`);

/**
 * The processes that answer in turn; the last one answers all later requests.
 * @type {{boot: string, knows: boolean}[]}
 */
let processes = [];
/** The requests that reached a process. @type {{url: URL, init: any}[]} */
let received = [];
/** Whether no process listens. */
let down = false;

/** @param {string} address @param {any} init */
async function answer(address, init) {
  if (down) throw new TypeError("refused");
  const url = new URL(address, "http://127.0.0.1:8790");
  received.push({ url, init });
  const { boot, knows } = /** @type {{boot: string, knows: boolean}} */ (processes.length > 1
    ? processes.shift()
    : processes[0]);
  if (url.pathname !== "/api/v1/session") {
    const named = (url.searchParams.get("proof") ?? "").split(".")[2]?.split("-").includes(boot);
    return new Response(JSON.stringify(named ? { boot } : { error: "no" }), { status: named ? 200 : 401 });
  }
  const said = ["server", url.searchParams.get("challenge"), TICKET, boot, 5000];
  return new Response(
    JSON.stringify({
      ticket: TICKET,
      boot,
      now_ms: 5000,
      proofs: [mac(knows ? key : "wrong", said.join("\n")).toString("hex")],
    }),
  );
}

beforeEach(async () => {
  mock.restoreAll();
  mock.method(globalThis, "fetch", answer);
  /** @type {any} */ (globalThis).location = { origin: "http://127.0.0.1:8790" };
  /** @type {any} */ (globalThis).indexedDB = {
    open: () => {
      throw new DOMException("a private window");
    },
  };
  [processes, down] = [[{ boot: "a", knows: true }], false];
  assert.equal(await signIn(TOKEN), true);
  received = [];
});

test("a request is signed, and holds neither token nor key nor cookie", async () => {
  assert.deepEqual(await call("/runs?q=a b", { method: "POST", body: { x: "ä" } }), { boot: "a" });
  const [{ url, init }] = /** @type {[typeof received[0]]} */ (received);
  const [ticket, sent, boots, signature] = (url.searchParams.get("proof") ?? "").split(".");
  assert.deepEqual([ticket, boots, init.credentials], [TICKET, "a", "omit"]);
  assert.equal(
    signature,
    mac(key, ["request", sent, "a", "POST", "/api/v1/runs?q=a%20b", '{"x":"ä"}'].join("\n")).toString("hex"),
  );
  const everything = JSON.stringify([url.href, init]);
  assert.ok(!everything.includes(TOKEN) && !everything.includes(key.toString("hex")));
});

test("a restarted server proves itself, and the request is signed for it", async () => {
  processes = [{ boot: "b", knows: true }];
  assert.deepEqual(await call("/runs"), { boot: "b" });
  assert.deepEqual(received.map(({ url }) => url.pathname), [
    "/api/v1/runs",
    "/api/v1/session",
    "/api/v1/runs",
  ]);
});

test("servers that take turns behind one address are all signed for", async () => {
  const [b, c] = [{ boot: "b", knows: true }, { boot: "c", knows: true }];
  processes = [b, c, b, b, c, c, b];
  for (let i = 0; i < 3; i += 1) await call("/runs");
});

test("after a lost connection nothing is sent before a proof, and nothing without one", async () => {
  down = true;
  await assert.rejects(call("/runs"), (error) => error instanceof ApiError && error.status === 0);
  down = false;
  processes = [{ boot: "a", knows: false }];
  for (let i = 0; i < 2; i += 1)
    await assert.rejects(call("/runs"), (error) => error instanceof ApiError && error.status === 401);
  assert.deepEqual([...new Set(received.map(({ url }) => url.pathname))], ["/api/v1/session"]);
  processes = [{ boot: "b", knows: true }];
  assert.deepEqual(await call("/runs"), { boot: "b" });
});

test("a token that the server does not know is told, and not sent", async () => {
  assert.equal(await signIn("wrong"), false);
  assert.ok(!JSON.stringify(received.map(({ url }) => url.href)).includes("wrong"));
});
