/** A hold or a change of a job's request, while it is typed and sent. */

export class Intervention {
  /**
   * @param send `send(what, body)` sends it: `what` is "hold" or "edit"
   * @param changed called when the form has to be drawn again
   */
  constructor(send, changed) {
    this.send = send;
    this.changed = changed;
    this.what = null;
    this.busy = false;
    this.problem = null;
  }

  open(what) {
    Object.assign(this, { what, busy: false, problem: null });
    this.changed();
  }

  close() {
    this.what = null;
    this.changed();
  }

  /** Sends the body, and closes the form unless that was refused. */
  submit = async (body) => {
    this.busy = true;
    this.problem = null;
    this.changed();
    try {
      await this.send(this.what, body);
      this.what = null;
    } catch (error) {
      this.problem = error.message;
    }
    this.busy = false;
    this.changed();
  };
}
