"""What the commands that send cells and files say when they cannot, and where they lead."""

from __future__ import annotations

import json
import os
import re
import sys

import nbformat
import pytest
from benches.lab_bench import PANEL, Desk, Lab, card
from browsers.axe import violations
from browsers.browser import tabs_of
from playwright.sync_api import BrowserContext, Locator, Page, expect
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client
from springtide.widgets.display.document import FORM_TYPE

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]

BARE = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "springtide":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""
"""A kernel whose Python has no springtide."""
SEND = "Run this cell as a job in the shared pool"


def ready(tab: Page) -> None:
    """Wait until the kernel of the notebook is idle."""
    tab.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")


def send(tab: Page) -> None:
    """Send with the options of the dialog."""
    expect(tab.get_by_test_id("send-words")).to_contain_text("It would ")
    tab.get_by_role("button", name="Send", exact=True).click()


def test_a_cell_of_a_kernel_without_the_package_says_in_a_sentence_how_to_send_it(
    lab: Lab, context: BrowserContext
) -> None:
    place = lab.root / ".local/share/jupyter/kernels/bare"
    place.mkdir(parents=True)
    argv = [sys.executable, "-c", BARE, "-f", "{connection_file}"]
    (place / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Bare", "language": "python"}))
    kernel = {"name": "bare", "display_name": "Bare", "language": "python"}
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": kernel}, cells=[nbformat.v4.new_code_cell("6 * 7")]
    )
    nbformat.write(notebook, lab.root / "bare.ipynb")
    tab = lab.open(context, "bare.ipynb")
    ready(tab)
    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.get_by_title(SEND).first.click()
    send(tab)
    output = tab.locator(".jp-OutputArea-output").first
    expect(output).to_contain_text("Nothing was sent: this kernel's Python lacks the package springtide[widgets].")
    expect(output).not_to_contain_text("Traceback")
    expect(output).not_to_contain_text("run_cell_magic")


def test_a_cell_that_is_refused_leaves_its_dialog_with_all_options(lab: Lab, desk: Desk) -> None:
    cells = ["import threading\nlock = threading.Lock()", "print(lock)"]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": kernel}, cells=[nbformat.v4.new_code_cell(each) for each in cells]
    )
    nbformat.write(notebook, lab.root / "locked.ipynb")
    tab = desk("locked.ipynb")
    ready(tab)
    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.keyboard.press("Shift+Enter")
    expect(tab.locator(".jp-InputPrompt").first).to_have_text("[1]:")
    tab.get_by_title(SEND).first.click()
    tab.get_by_test_id("form-gpus").fill("2")
    send(tab)
    words = tab.get_by_test_id("send-words")
    expect(words).to_contain_text("Nothing was sent: ")
    expect(words).to_contain_text("lock")
    expect(tab.get_by_test_id("form-gpus")).to_have_value("2")
    expect(tab.locator(".jp-OutputArea-output")).to_have_count(0)
    tab.get_by_role("button", name="Cancel").click()
    expect(tab.get_by_test_id("send-words")).to_have_count(0)


def test_the_button_of_a_markdown_cell_is_disabled_and_says_why(lab: Lab, desk: Desk) -> None:
    cells = [nbformat.v4.new_code_cell("6 * 7"), nbformat.v4.new_markdown_cell("# Words")]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(
        nbformat.v4.new_notebook(metadata={"kernelspec": kernel}, cells=cells), lab.root / "words.ipynb"
    )
    tab = desk("words.ipynb")
    ready(tab)
    expect(tab.get_by_title(SEND).first).to_be_enabled()
    tab.locator(".jp-MarkdownCell").click()
    button = tab.locator(".jp-MarkdownCell [title^='Only a code cell can run as a job']")
    expect(button).to_be_visible()
    expect(button).to_have_attribute("aria-disabled", "true")


def test_the_notice_of_a_sent_file_opens_the_job_in_a_tab(lab: Lab, context: BrowserContext, desk: Desk) -> None:
    (lab.root / "quick.py").write_text("print('all done')")
    lab.write("quick.ipynb", ("1", None))
    tab = desk("quick.ipynb")
    ready(tab)
    tab.locator(".jp-DirListing-item", has_text="quick.py").click(button="right")
    tab.get_by_role("menuitem", name="Send to the Pool…").click()
    send(tab)
    notice = tab.locator(".Toastify__toast", has_text="Sent quick.py to the pool.")
    notice.get_by_role("button", name="Open").click()
    expect(card(tab).get_by_test_id("job-name")).to_have_text("quick")
    assert len(tabs_of(context)) == 1


def test_a_long_notice_ends_with_a_whole_word_and_shows_the_rest_on_demand(lab: Lab, desk: Desk) -> None:
    name = f"{'word ' * 20}end.py"
    (lab.root / name).write_text("print('all done')")
    lab.write("long.ipynb", ("1", None))
    tab = desk("long.ipynb")
    ready(tab)
    tab.locator(".jp-DirListing-item", has_text="word word").click(button="right")
    tab.get_by_role("menuitem", name="Send to the Pool…").click()
    send(tab)
    notice = tab.locator(".Toastify__toast", has_text="Sent word word")
    message = notice.locator(".jp-toast-message").inner_text()
    notice.get_by_role("button", name="Read All").click()
    whole = tab.locator(".jp-Dialog-body")
    expect(whole).to_contain_text("word end.py to the pool. The job runs in its own copy of")
    words, cut, _ = message.partition("…")
    assert (cut, len(message) <= 140) == ("…", True)
    assert re.match(rf"{re.escape(words)}\W", whole.inner_text()), "a whole word is the last one"


def typed(tab: Page, name: str, code: str) -> None:
    """Open a notebook's menu in the file browser, with a cell that was typed and not saved, and send the file."""
    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.keyboard.press("Control+a")
    tab.keyboard.type(code)
    tab.locator(".jp-DirListing-item", has_text=name).click(button="right")
    tab.get_by_role("menuitem", name="Send to the Pool…").click()
    send(tab)


def test_an_unsaved_notebook_is_sent_as_it_is_on_the_screen_and_may_be_renamed(
    lab: Lab, desk: Desk, service: ServiceProcess
) -> None:
    lab.write("draft.ipynb", ("'as saved'", None))
    tab = desk("draft.ipynb")
    ready(tab)
    typed(tab, "draft.ipynb", "import os; open(os.environ['SPRINGTIDE_OUTPUT_DIR'] + '/typed', 'w').close()")
    notice = tab.locator(".Toastify__toast", has_text="Sent draft.ipynb to the pool.")
    expect(notice).to_be_visible()
    tab.evaluate("window.jupyterapp.serviceManager.contents.rename('draft.ipynb', 'final.ipynb')")
    expect(tab.locator(".jp-DirListing-item", has_text="final.ipynb")).to_be_visible()
    notice.get_by_role("button", name="Open").click()
    expect(card(tab).get_by_test_id("job-name")).to_have_text("draft")
    expect(card(tab).get_by_test_id("job-state")).to_contain_text("Succeeded")
    with Client(service.url, "susan") as pool:
        job = pool.jobs(state="succeeded", search="draft").items[0]
        assert "typed" in [file.name for file in pool.outputs(job.id).items]


def test_a_notebook_shows_its_parameters_in_the_dialog_and_in_the_form(
    lab: Lab, desk: Desk, service: ServiceProcess
) -> None:
    tagged = nbformat.v4.new_code_cell("rate = 0.5", metadata={"tags": ["parameters"]})
    shown = nbformat.v4.new_output(
        "execute_result", data={FORM_TYPE: {}, "text/plain": "A form"}, execution_count=1
    )
    cells = [tagged, nbformat.v4.new_code_cell("print('rate', rate)", outputs=[shown])]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(
        nbformat.v4.new_notebook(metadata={"kernelspec": kernel}, cells=cells), lab.root / "rates.ipynb"
    )
    tab = desk("rates.ipynb")
    ready(tab)
    form = tab.get_by_test_id("job-form")
    form.get_by_label("Notebook").check()
    form.get_by_test_id("form-notebook").select_option("rates.ipynb")
    field = form.get_by_test_id("form-argument-rate")
    expect(field).to_have_attribute("placeholder", "0.5")
    field.fill("fast")
    expect(form.get_by_test_id("form-argument-rate-wrong")).to_contain_text("rate was “0.5”, a number")
    expect(form.get_by_test_id("form-submit")).to_be_disabled()
    field.fill("0.25")
    form.get_by_test_id("form-submit").click()
    expect(tab.get_by_test_id("job-card").first.get_by_test_id("job-arguments")).to_have_text("rate 0.25")

    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.keyboard.press("Control+a")
    tab.keyboard.type("rate, steps = 0.5, 1\nmomentum = 0.75")
    tab.locator(".jp-DirListing-item", has_text="rates.ipynb").click(button="right")
    tab.get_by_role("menuitem", name="Send to the Pool…").click()
    dialog = tab.get_by_role("dialog")
    momentum = dialog.get_by_label("momentum")
    expect(momentum).to_have_attribute("placeholder", "0.75")
    expect(dialog.get_by_test_id("send-words")).to_contain_text("It would ")
    momentum.fill("much")
    expect(dialog.get_by_test_id("form-argument-momentum-wrong")).to_contain_text(
        "momentum was “0.75”, a number; “much” is a text."
    )
    expect(dialog.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    momentum.fill("0.9")
    expect(dialog.get_by_test_id("form-argument-momentum-wrong")).to_have_count(0)
    dialog.get_by_test_id("form-gpus").fill("1.5")
    expect(dialog.get_by_test_id("form-gpus-wrong")).to_contain_text("1.5")
    expect(dialog.get_by_test_id("send-words")).to_have_text("Correct first: GPUs.")
    expect(dialog.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    dialog.get_by_test_id("form-gpus").fill("1")
    send(tab)
    tab.locator(".Toastify__toast", has_text="Sent rates.ipynb").get_by_role("button", name="Open").click()
    expect(tab.get_by_role("tabpanel").get_by_test_id("job-arguments")).to_contain_text("momentum 0.9")


def test_the_dialog_has_all_options_in_a_fold_that_is_remembered_with_errors_beside_their_fields(
    lab: Lab, desk: Desk, service: ServiceProcess
) -> None:
    (lab.root / "options.py").write_text("import sys; print(sys.argv[1:])")
    lab.write("options.ipynb", ("rate = 6\nrate * 7", None))
    tab = desk("options.ipynb")
    ready(tab)
    dialog = tab.get_by_role("dialog")

    def begin() -> None:
        tab.locator(".jp-DirListing-item", has_text="options.py").click(button="right")
        tab.get_by_role("menuitem", name="Send to the Pool…").click()

    begin()
    expect(dialog.get_by_test_id("form-gpus")).to_be_focused()
    expect(dialog.get_by_test_id("form-time_limit")).not_to_be_visible()
    expect(dialog.locator("summary")).to_have_text("More options")
    dialog.get_by_text("More options").focus()
    tab.keyboard.press("Enter")
    limit = dialog.get_by_test_id("form-time_limit")
    limit.fill("soon")
    wrong = dialog.get_by_test_id("form-time_limit-wrong")
    expect(wrong).to_contain_text("soon")
    expect(dialog.get_by_test_id("send-words")).to_have_text("Correct first: Time limit.")
    expect(dialog.get_by_test_id("send-words")).to_be_in_viewport()
    expect(dialog.locator("summary")).to_have_text("More options · 1 set, 1 to correct")
    assert violations(tab, ".jp-Dialog") == []
    limit.press("Enter")
    expect(dialog.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    limit.fill("2h")
    expect(wrong).to_have_count(0)
    dialog.get_by_test_id("form-name").fill("from the dialog")
    dialog.get_by_test_id("form-line").fill("--lr 0.1 'two words'")
    limit.press("Enter")
    notice = tab.locator(".Toastify__toast", has_text="Sent options.py to the pool.")
    notice.get_by_role("button", name="Open").click()
    expect(card(tab).get_by_test_id("job-name")).to_have_text("from the dialog")
    expect(card(tab).get_by_test_id("job-state")).to_contain_text("Succeeded")
    with Client(service.url, "susan") as pool:
        job = pool.jobs(search="from the dialog").items[0]
        assert job.options.time_limit == 7200
        assert job.argv[-3:] == ["--lr", "0.1", "two words"]

    tab.get_by_role("tab", name="options.ipynb").click()
    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.get_by_title(SEND).first.click()
    dialog.get_by_test_id("form-name").fill("a named cell")
    expect(dialog.get_by_test_id("form-line")).to_have_count(0)
    send(tab)
    cell = tab.locator(".jp-OutputArea").get_by_test_id("job-name")
    expect(cell).to_have_text("a named cell")


def test_the_dialog_of_a_cell_that_no_job_can_run_says_why_and_keeps_the_keyboard(lab: Lab, desk: Desk) -> None:
    lab.write("lines.ipynb", ("x = 1\n!pip install nothing", None))
    tab = desk("lines.ipynb")
    ready(tab)
    tab.locator(".jp-CodeCell .cm-content").first.click()
    tab.get_by_title(SEND).first.click()
    dialog = tab.get_by_role("dialog")
    refusal = dialog.get_by_test_id("send-refusal")
    expect(refusal).to_contain_text("line 2, “!pip install nothing”, is a shell or magic")
    sending = dialog.get_by_role("button", name="Send", exact=True)
    expect(sending).to_be_disabled()
    gpus = dialog.get_by_test_id("form-gpus")
    expect(gpus).to_be_focused()
    tab.keyboard.type("x2")
    expect(gpus).to_have_value("2")
    assert sending.is_disabled(), "also before the next estimate"
    dialog.get_by_role("button", name="Cancel").focus()
    tab.keyboard.press("Tab")
    expect(dialog.locator(":focus")).to_have_count(1)
    tab.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(tab.locator(".jp-CodeCell")).to_have_count(1)
    expect(tab.locator(".jp-CodeCell .cm-content")).to_contain_text("!pip install nothing")
    expect(tab.locator(".jp-OutputArea-output")).to_have_count(0)


def test_a_notebook_that_is_not_saved_because_its_file_has_changed_is_not_sent(lab: Lab, desk: Desk) -> None:
    lab.write("shared.ipynb", ("'first'", None))
    tab = desk("shared.ipynb")
    ready(tab)
    lab.write("shared.ipynb", ("'by somebody else'", None))
    os.utime(lab.root / "shared.ipynb", (2e9, 2e9))
    typed(tab, "shared.ipynb", "'mine'")
    tab.locator(".jp-Dialog", has_text="File Changed").get_by_role("button", name="Cancel").click()
    expect(tab.locator(".jp-Dialog")).to_contain_text("Nothing was sent")
    expect(tab.locator(".jp-Dialog")).to_contain_text("shared.ipynb was not saved")


def test_sections_of_the_dialog_keep_their_height_and_its_body_scrolls(lab: Lab, desk: Desk) -> None:
    tagged = nbformat.v4.new_code_cell("lr = 0.1\nepochs = 3\nopt = 'adam'", metadata={"tags": ["parameters"]})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(
        nbformat.v4.new_notebook(metadata={"kernelspec": kernel}, cells=[tagged]), lab.root / "tall.ipynb"
    )
    tab = desk("tall.ipynb")
    tab.set_viewport_size({"width": 1366, "height": 768})
    ready(tab)
    tab.evaluate("localStorage.setItem('springtide-send-unfolded', 'yes')")
    tab.locator(".jp-DirListing-item", has_text="tall.ipynb").click(button="right")
    tab.get_by_role("menuitem", name="Send to the Pool…").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.get_by_test_id("form-time_limit")).to_be_visible()
    section = dialog.get_by_role("group", name="Parameters")
    shown, needed = section.evaluate("(node) => [node.clientHeight, node.scrollHeight]")
    assert shown >= needed, "a section that shows a part of its fields"
    bottom = section.evaluate("(node) => node.getBoundingClientRect().bottom")
    for name in ("lr", "epochs", "opt"):
        field = section.get_by_label(name).evaluate("(node) => node.getBoundingClientRect().bottom")
        assert field <= bottom, f"{name} reaches out of its section"
    scrolling = dialog.evaluate(
        "(node) => [...node.querySelectorAll('*')].filter((each) => each.scrollHeight > each.clientHeight + 1 && "
        "/auto|scroll/.test(getComputedStyle(each).overflowY)).map((each) => each.className)"
    )
    assert len(scrolling) == 1, scrolling
    assert "jp-Dialog-body" in scrolling[0]


def opened_dialog(tab: Page, file: str) -> Locator:
    """Open the dialog that sends a file, with all options unfolded."""
    tab.evaluate("localStorage.setItem('springtide-send-unfolded', 'yes')")
    tab.locator(".jp-DirListing-item", has_text=file).click(button="right")
    tab.get_by_role("menuitem", name="Send to the Pool…").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.get_by_test_id("form-time_limit")).to_be_visible()
    return dialog


def test_wrong_arguments_of_a_script_are_marked_and_a_refusal_loses_nothing_that_was_typed(
    lab: Lab, desk: Desk, service: ServiceProcess
) -> None:
    script = lab.root / "refused.py"
    script.write_text("import sys; print(sys.argv[1:])")
    lab.write("beside.ipynb", ("6 * 7", None))
    tab = desk("beside.ipynb")
    ready(tab)
    dialog = opened_dialog(tab, "refused.py")
    sending = dialog.get_by_role("button", name="Send", exact=True)
    line = dialog.get_by_test_id("form-line")
    line.fill('--lr "0.1')
    expect(dialog.get_by_test_id("form-line-wrong")).to_contain_text("No closing quotation.")
    expect(line).to_have_attribute("aria-invalid", "true")
    dialog.get_by_test_id("form-tags").fill("two words")
    expect(dialog.get_by_test_id("form-tags-wrong")).to_contain_text(
        "Tags: “two words” does not fit; expected text of"
    )
    dialog.get_by_test_id("form-keep_last").fill("-1")
    expect(dialog.get_by_test_id("form-keep_last-wrong")).to_contain_text("Checkpoints kept is -1; expected")
    labels = set(dialog.locator("label").all_inner_texts())
    words = dialog.get_by_test_id("send-words")
    expect(words).to_have_text(re.compile("^Correct first: Arguments, .*Checkpoints kept"))
    named = words.inner_text().removeprefix("Correct first: ").removesuffix(".").split(", ")
    assert set(named) <= labels
    assert len(named) == 3
    expect(sending).to_be_disabled()
    dialog.get_by_test_id("form-tags").fill("")
    dialog.get_by_test_id("form-keep_last").fill("")
    line.fill('--lr "0.1"')
    dialog.get_by_test_id("form-name").fill("typed once")
    expect(words).to_contain_text("It would ")
    script.rename(lab.root / "away.py")
    try:
        sending.click()
        expect(words).to_contain_text("Nothing was sent: There is no file “refused.py” below the directory")
    finally:
        (lab.root / "away.py").rename(script)
    expect(line).to_have_value('--lr "0.1"')
    expect(dialog.get_by_test_id("form-name")).to_have_value("typed once")
    sending.click()
    expect(tab.locator(".Toastify__toast", has_text="Sent refused.py to the pool.")).to_be_visible()
    expect(dialog).to_have_count(0)
    with Client(service.url, "susan") as pool:
        assert pool.jobs(search="typed once").items[0].argv[-2:] == ["--lr", "0.1"]


def test_mistakes_of_several_parameters_are_each_named_once_and_beside_their_fields(lab: Lab, desk: Desk) -> None:
    tagged = nbformat.v4.new_code_cell("lr = 0.1\nepochs = 3", metadata={"tags": ["parameters"]})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(
        nbformat.v4.new_notebook(metadata={"kernelspec": kernel}, cells=[tagged]), lab.root / "two.ipynb"
    )
    tab = desk("two.ipynb")
    ready(tab)
    dialog = opened_dialog(tab, "two.ipynb")
    for name, text in (("lr", "abc"), ("epochs", "many")):
        dialog.get_by_label(name, exact=True).fill(text)
    for name, text in (("lr", "abc"), ("epochs", "many")):
        expect(dialog.get_by_test_id(f"form-argument-{name}-wrong")).to_contain_text(f"“{text}” is a text.")
    expect(dialog.get_by_test_id("send-words")).to_have_text("Correct first: lr, epochs.")
    expect(dialog.get_by_text("“abc” is a text.")).to_have_count(1)
    expect(dialog.get_by_role("button", name="Send", exact=True)).to_be_disabled()
