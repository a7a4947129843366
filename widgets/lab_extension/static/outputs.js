/** Outputs of the pool's own MIME types, as widgets of JupyterLab. */

import { keepKeys } from "./visuals/base/keys.js";
import { showForm } from "./visuals/live/form_view.js";
import { showJob } from "./visuals/live/job_view.js";
import { showJobs } from "./visuals/live/jobs_view.js";
import { showPool } from "./visuals/live/pool_view.js";

const JOB = "application/vnd.springtide.job+json";
const JOBS = "application/vnd.springtide.jobs+json";
const POOL = "application/vnd.springtide.pool+json";
const FORM = "application/vnd.springtide.form+json";
const UNREADABLE = "This output was written by another version of Springtide. Run the cell again.";

/**
 * Makes the factory of renderers. They draw text and shapes only, so they are safe for any notebook; nothing in a form
 * comes from the notebook. `backendOf` returns the backend of a form by its element.
 */
export function cardFactory(Widget, feed, backendOf) {
  const { pageOf, target } = feed.links;
  const openPage = (id) => pageOf(id) && window.open(pageOf(id), target, "noopener");
  const shows = {
    [JOB]: (element, data, kept) => showJob(element, feed, data, kept),
    [JOBS]: (element, data) => showJobs(element, feed, data),
    [POOL]: (element, data) => showPool(element, feed, data, openPage),
    [FORM]: (element, _data, kept, node) => showForm(element, feed, kept, () => backendOf(node)),
  };

  /** An output that is live while it is on the page. */
  class CardOutput extends Widget {
    constructor({ mimeType }) {
      super();
      this.addClass("springtide-output");
      this.mimeType = mimeType;
      this.data = null;
      this.end = null;
      this.kept = {};
    }

    async renderModel(model) {
      this.data = model.data[this.mimeType];
      if (this.end !== null || this.isAttached) this.begin();
    }

    onAfterAttach() {
      if (this.data !== null && this.end === null) this.begin();
    }

    onBeforeDetach() {
      this.finish();
    }

    dispose() {
      this.finish();
      super.dispose();
    }

    begin() {
      this.finish();
      const card = document.createElement("article");
      keepKeys(card);
      this.node.replaceChildren(card);
      try {
        this.end = shows[this.mimeType](card, this.data, this.kept, this.node);
      } catch (error) {
        card.textContent = UNREADABLE;
        reportError(error);
      }
    }

    finish() {
      this.end?.();
      this.end = null;
    }
  }

  return {
    safe: true,
    mimeTypes: Object.keys(shows),
    defaultRank: -20,
    createRenderer: (options) => new CardOutput(options),
  };
}
