/** A job's list of files from the API, its outputs or checkpoints, read again while it can change. */

import { isFinal } from "../base/glyphs.js";
import { clockNow } from "../base/words.js";

const READ_AGAIN_S = 5;

export class JobListing {
  #read = { at: -Infinity, standing: null, busy: false };

  /**
   * @param call `call(method, path, body)` promises the body of the API's response, or throws with `message` and `status`
   * @param path of the list
   * @param interval the time after which the list of an unfinished job is read again, in seconds
   * @param changed called when the view has to be drawn again
   */
  constructor(call, path, interval, changed) {
    this.call = call;
    this.path = path;
    this.interval = interval;
    this.changed = changed;
    this.list = null;
    this.problem = null;
  }

  /** Reads the list if the interval has passed, or if `mark`, which stays while nothing can have changed, is another. */
  look(job, mark) {
    if (this.#read.busy || document.hidden) return;
    const standing = `${job.state} ${job.attempt} ${mark}`;
    const passed = clockNow() - this.#read.at;
    const isDue =
      standing === this.#read.standing && !this.problem
        ? !isFinal(job.state) && passed >= this.interval
        : passed >= READ_AGAIN_S;
    if (isDue) this.#load(standing);
  }

  async #load(standing) {
    this.#read = { at: clockNow(), standing, busy: true };
    try {
      this.list = await this.call("GET", this.path);
      this.problem = null;
    } catch (error) {
      this.problem = error.message;
    }
    this.#read.busy = false;
    this.changed();
  }
}
