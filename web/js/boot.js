// Runs before the first paint so that a saved theme does not flash. All modules load later.
(() => {
  const saved = localStorage.getItem("loaderwatch.theme");
  if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;
})();
