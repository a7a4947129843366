/** Links to the reports of a job in trackers such as MLflow; none if an administrator has set none. */

import { call } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { clean } from "../visuals/base/words.js";

const AGAIN_S = 10;
const ATTEMPTS = 6;

/** Fetches the links after the first report of the job, with a few retries while a tracker lacks the job. */
export class TrackerLinks {
  constructor(path, redraw) {
    this.path = `${path}/tracking`;
    this.redraw = redraw;
    this.links = [];
    this.left = ATTEMPTS;
    this.due = 0;
  }

  draw() {
    this.read();
    return this.links
      .filter(({ url }) => url)
      .map(({ name, url }) => [
        " · ",
        h("a", { key: url, href: url, target: "_blank", rel: "noopener", "data-testid": "tracker-link" }, clean(name)),
      ]);
  }

  async read() {
    if (!this.left || Date.now() < this.due) return;
    this.left -= 1;
    this.due = Date.now() + 1000 * AGAIN_S;
    this.links = (await call("GET", this.path).catch(() => ({}))).items ?? this.links;
    if (this.links.every(({ url }) => url)) this.left = 0;
    this.redraw();
  }
}
