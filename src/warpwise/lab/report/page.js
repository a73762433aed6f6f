"use strict";
(() => {
  const root = document.documentElement, tip = document.getElementById("tip");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Light, dark, or the system setting; stored in localStorage if the browser allows it.
  const themes = ["auto", "light", "dark"], button = document.getElementById("theme");
  const kept = () => { try { return localStorage.getItem("warpwise-theme"); } catch { return null; } };
  const keep = (name) => { try { localStorage.setItem("warpwise-theme", name); } catch { /* private browsing */ } };
  const wear = (name) => {
    root.dataset.theme = name;
    document.getElementById("worn").textContent = name;
  };
  wear(themes.includes(kept()) ? kept() : "auto");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    wear(next);
    keep(next);
  });

  // Show one point: elements of other points are hidden.
  const select = document.getElementById("point");
  select?.addEventListener("change", () => {
    const dtype = select.selectedOptions[0].dataset.dtype;
    for (const part of all("main [data-point]")) part.hidden = part.dataset.point !== select.value;
    for (const part of all("main div[data-dtype]")) part.hidden = part.dataset.dtype !== dtype;
  });

  // A link to a rung opens it.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") {
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) open();
  });
  open();
  const everything = document.getElementById("all");
  everything?.addEventListener("click", () => {
    const opened = everything.getAttribute("aria-pressed") !== "true";
    for (const rung of all("details.rung")) rung.open = opened;
    everything.setAttribute("aria-pressed", String(opened));
    everything.textContent = opened ? "close all" : "open all";
  });

  // The figures of the mark under the pointer, touched or focused; its rung is highlighted in every chart.
  const described = (node) => node?.closest?.("svg.chart") && node.closest("[aria-roledescription][aria-label]:not(g)");
  const show = (mark) => {
    tip.textContent = mark.getAttribute("aria-label");
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left + Math.min(at.width, 240) / 2 - own.width / 2), innerWidth - own.width - 8);
    tip.style.left = `${left}px`;
    tip.style.top = `${at.top > own.height + 60 ? at.top - own.height - 8 : at.bottom + 8}px`;
    stress(mark.closest("a")?.getAttribute("href"));
  };
  const stress = (href) => {
    for (const chart of all("svg.chart")) {
      const links = all("a", chart), same = links.filter((link) => link.getAttribute("href") === href);
      chart.classList.toggle("dim", Boolean(href) && same.length > 0);
      for (const link of links) link.classList.toggle("on", same.includes(link));
    }
  };
  const hide = () => {
    tip.hidden = true;
    stress(null);
  };
  let near = null;
  const nearest = (event) => {
    const chart = event.target.closest?.("svg.chart");
    if (!chart) return null;
    const direct = described(event.target);
    if (direct) return direct;
    const reach = event.pointerType === "mouse" ? 10 : 24;
    let best = null, least = reach;
    for (const mark of all("path[aria-roledescription][aria-label]", chart)) {
      const box = mark.getBoundingClientRect();
      const x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
      const y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
      const far = Math.hypot(x, y);
      if (far < least) [best, least] = [mark, far];
    }
    return best;
  };
  const follow = (event) => {
    const mark = nearest(event);
    if (mark === near) return;
    near = mark;
    if (mark) show(mark); else hide();
  };
  // A browser repeats the last mouse move when the page changes under the pointer. Such a move does not hide a mark
  // that was selected by touch or keyboard.
  let pointed = false;
  document.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    const mark = nearest(event);
    if (mark || pointed) follow(event);
    pointed = Boolean(mark);
  });
  // The first touch of a mark shows its figures, a second one follows its link. A touch gives the link the focus before
  // it is a click, and that must not count as the first.
  let touching = false;
  document.addEventListener("pointerdown", (event) => { touching = event.pointerType !== "mouse"; });
  document.addEventListener("keydown", () => { touching = false; });
  document.addEventListener("click", (event) => {
    if (!touching) return;
    const before = near;
    follow(event);
    if (near && near !== before) event.preventDefault();
  });
  document.addEventListener("focusin", (event) => {
    if (touching) return;
    const mark = event.target.closest?.("svg.chart a")?.querySelector("[aria-label]");
    near = mark ?? null;
    if (mark) show(mark); else hide();
  });
  addEventListener("scroll", () => { near = null; hide(); }, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("beforeprint", () => { for (const part of all("details")) part.open = true; });
})();
