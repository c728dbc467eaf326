// Light or dark: the reader's choice, else the system's. Charts take every colour from the style sheet.

/**
 * @typedef {{kind: "light"|"dark", text: string, muted: string, grid: string, panel: string, accent: string,
 *   critical: string, warning: string, ok: string, wait: string, h2d: string, forward: string,
 *   backward: string, optimizer: string, other: string, others: string, gpu: string, power: string,
 *   line: string, heat: string[]}} Palette
 */

const KEY = "loaderwatch.theme";

/** @returns {"light"|"dark"|"auto"} */
export function savedTheme() {
  const saved = localStorage.getItem(KEY);
  return saved === "light" || saved === "dark" ? saved : "auto";
}

/** @param {"light"|"dark"|"auto"} theme */
export function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  if (theme === "auto") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
}

let printing = false;

/**
 * Print in the light theme. Printers drop the dark background and would keep the light text.
 * @param {() => void} draw - draws at once
 */
export function listenPrint(draw) {
  window.addEventListener("beforeprint", () => {
    printing = true;
    document.documentElement.dataset.theme = "light";
    draw();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    applyTheme(savedTheme());
    draw();
  });
}

/** @param {"light"|"dark"|"auto"} theme @returns {"light"|"dark"} */
export function effective(theme) {
  if (printing) return "light";
  if (theme !== "auto") return theme;
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** @param {"light"|"dark"|"auto"} theme @returns {Palette} */
export function readPalette(theme) {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    kind: effective(theme),
    text: get("text"),
    muted: get("muted"),
    grid: get("grid"),
    panel: get("panel"),
    accent: get("accent"),
    critical: get("critical"),
    warning: get("warning"),
    ok: get("ok"),
    wait: get("c-wait"),
    h2d: get("c-h2d"),
    forward: get("c-forward"),
    backward: get("c-backward"),
    optimizer: get("c-optimizer"),
    other: get("c-other"),
    others: get("c-others"),
    gpu: get("c-gpu"),
    power: get("c-power"),
    line: get("c-line"),
    heat: [0, 1, 2, 3, 4].map((i) => get(`heat-${i}`)),
  };
}
