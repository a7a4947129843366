/** A hold or a change of a job's request, while it is typed and sent. */

let formsMade = 0;

export class Intervention {
  /**
   * @param send `send(what, body)` sends it: `what` is "hold" or "edit"
   * @param changed called when the form has to be drawn again
   */
  constructor(send, changed) {
    this.send = send;
    this.changed = changed;
    this.id = `st-intervention-${(formsMade += 1)}`;
    this.what = null;
    this.busy = false;
    this.problem = null;
    this.field = null;
  }

  open(what) {
    Object.assign(this, { what, busy: false, problem: null, field: null });
    this.changed();
  }

  close = () => {
    this.what = null;
    this.changed();
  };

  /** Sends the body, and closes the form unless that was refused. */
  submit = async (body) => {
    Object.assign(this, { busy: true, problem: null, field: null });
    this.changed();
    try {
      await this.send(this.what, body);
      this.what = null;
    } catch (error) {
      Object.assign(this, { problem: error.message, field: error.field ?? null });
    }
    this.busy = false;
    this.changed();
  };
}
