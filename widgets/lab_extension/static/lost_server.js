/** The question of JupyterLab whether to restart a notebook server that did not answer: it goes once the server answers. */

const LOOK_AGAIN_MS = 2000;
const QUESTION = "Your server at %1 is not running.\nWould you like to restart it?";

/**
 * Dismisses the question when the server answers again: then only the hub or the network had been away.
 * @param base the server's address, as the question has it
 * @param answers promises whether the server answers
 */
export function dismissWhenBack({ Dialog }, translator, base, answers) {
  const words = (translator?.load("jupyterlab").__(QUESTION, base) ?? QUESTION.replace("%1", base)).split("\n")[0];
  Dialog.tracker.widgetAdded.connect((_, dialog) => {
    const looking = setInterval(async () => {
      if (dialog.isDisposed || !dialog.node.textContent.includes(words)) clearInterval(looking);
      else if ((await answers()) && !dialog.isDisposed) dialog.reject();
    }, LOOK_AGAIN_MS);
  });
}
