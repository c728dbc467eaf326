// The reader's actions on runs: search, name, tag, pin, delete, and pick two to compare.

import { call, runPath } from "./api.js";
import { wholeList } from "./listing.js";
import { say } from "./texts.js";

/**
 * @typedef {import("./store.js").Store} Store
 * @typedef {import("./types.js").Contents} Contents
 * @typedef {{run: string, contents: Contents|null, deleting: boolean, error: string}} Editing
 */

/**
 * @param {Store} store @param {(note: string) => void} tell @param {() => Promise<void>} reload
 * @param {(hash: string) => void} go
 */
export function runActions(store, tell, reload, go) {
  /** @param {Partial<Editing>} patch */
  const edit = (patch) =>
    store.state.editing !== null && store.set({ editing: { ...store.state.editing, ...patch } });

  /** @param {string} run @param {Record<string, unknown>} labels */
  const label = async (run, labels) => {
    await call(runPath(run), { method: "PATCH", body: labels });
    await reload();
  };

  /** @param {() => Promise<void>} work */
  const trying = async (work) => {
    try {
      await work();
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (store.state.editing === null) tell(say("note-not-done", { why }));
      else edit({ error: why });
    }
  };

  return {
    /** @param {Partial<import("./listing.js").Listing>} patch */
    list: (patch) => store.set({ listing: { ...store.state.listing, ...patch } }),
    /** Reset the list. The new key of the search field makes the browser clear it. */
    listAll: () => store.set({ listing: wholeList(), listing_turn: store.state.listing_turn + 1 }),
    /** @param {string} run */
    pick: (run) => {
      const { picked } = store.state;
      store.set({
        picked: picked.includes(run) ? picked.filter((id) => id !== run) : [...picked.slice(-1), run],
      });
    },
    pickNone: () => store.set({ picked: [] }),
    /** @param {string} run @param {boolean} pinned */
    pin: (run, pinned) => trying(() => label(run, { pinned })),
    /** @param {string} run */
    editRun: (run) => {
      store.set({ editing: { run, contents: null, deleting: false, error: "" } });
      return trying(async () => void edit({ contents: await call(`${runPath(run)}/contents`) }));
    },
    closeEditing: () => store.set({ editing: null }),
    askToDelete: () => edit({ deleting: true, error: "" }),
    /** @param {Event} event */
    saveLabels: (event) => {
      event.preventDefault();
      const { editing } = store.state;
      if (editing === null) return;
      const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
      const value = (/** @type {string} */ name) => String(form.get(name) ?? "");
      const tags = value("tags").split(",").map((tag) => tag.trim().replace(/^#/, "")).filter(Boolean);
      return trying(async () => {
        await label(editing.run, {
          name: value("name").trim(),
          tags,
          note: value("note").trim(),
          pinned: form.get("pinned") !== null,
        });
        store.set({ editing: null });
        tell(say("note-saved"));
      });
    },
    /** @param {Event} event */
    deleteRun: (event) => {
      event.preventDefault();
      const { editing, route, picked } = store.state;
      if (editing === null) return;
      const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
      const name = String(form.get("confirm") ?? "").trim();
      return trying(async () => {
        await call(runPath(editing.run), { method: "DELETE", body: { name } });
        store.set({ editing: null, picked: picked.filter((id) => id !== editing.run) });
        tell(say("note-deleted", { name }));
        if (route.run === editing.run) go("#/");
        await reload();
      });
    },
  };
}
