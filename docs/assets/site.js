// The search of a page that was opened as a file: a browser starts no worker from a file, so that the worker's script
// runs in a hidden frame, with the messages of a worker. The theme's script looks for it by this name.
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.appendChild(this.frame);
    const inside = this.frame.contentWindow;
    const page = inside.document;
    page.open();
    page.write("<!doctype html><html lang=en><title>Search</title><body></body></html>");
    page.close();
    inside.postMessage = (data) => setTimeout(() => this.answer(data));
    inside.importScripts = async (...urls) => {
      for (const source of urls) await FrameWorker.load(page, source);
    };
    this.started = FrameWorker.load(page, url);
  }

  static load(page, url) {
    return new Promise((resolve, reject) => {
      const script = page.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = reject;
      page.body.appendChild(script);
    });
  }

  answer(data) {
    const event = new MessageEvent("message", { data: structuredClone(data) });
    this.dispatchEvent(event);
    if (this.onmessage) this.onmessage(event);
  }

  postMessage(data) {
    this.started.then(() => {
      const event = new MessageEvent("message", { data: structuredClone(data) });
      this.frame.contentWindow.dispatchEvent(event);
    });
  }

  terminate() {
    this.frame.remove();
  }
}

window.IFrameWorker = FrameWorker;
if (location.protocol === "file:") window.Worker = FrameWorker;

// Keyboards reach each block that scrolls, and each navigation has a name of its own. The theme adds some of them late.
function name() {
  for (const element of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (element.scrollWidth > element.clientWidth && element.tabIndex < 0) element.tabIndex = 0;
  }
  for (const dialog of document.querySelectorAll(".md-search:not([aria-label])")) {
    dialog.setAttribute("aria-label", "Search");
  }
  document.querySelectorAll("nav:not([data-named])").forEach((part) => {
    name.count = (name.count || 0) + 1;
    const heading = part.querySelector("label, a, button");
    const text = (heading ? heading.textContent : "").trim() || "Navigation";
    part.removeAttribute("aria-labelledby");
    part.setAttribute("aria-label", `${part.getAttribute("aria-label") || text} ${name.count}`);
    part.dataset.named = "yes";
  });
}

addEventListener("load", () => {
  name();
  new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
});
