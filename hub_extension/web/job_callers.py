"""Authentication of programs of running jobs, by the credentials of their attempts."""

from __future__ import annotations

from dataclasses import dataclass

from tornado.web import RequestHandler

from springtide.hub_extension.web.auth import Authenticator
from springtide.hub_extension.web.caller import Caller, RunningJob
from springtide.hub_extension.web.hub import Groups
from springtide.scheduler.engine import Engine
from springtide.scheduler.executors.credentials import Credentials, is_credential
from springtide.scheduler.refusal import Refusal

SCHEMES = ("token ", "bearer ")


@dataclass(frozen=True, slots=True)
class JobCallers:
    """Authenticator that knows programs of running jobs, and asks ``inner`` about all other callers.

    A program acts for its job's user in its job's project, as long as the attempt runs and the job is not being
    cancelled. ``groups`` says whether the user is in that project still. Without ``credentials`` no program of a
    job is known.
    """

    inner: Authenticator
    engine: Engine
    groups: Groups
    credentials: Credentials | None

    async def caller(self, handler: RequestHandler) -> Caller | None:
        """See `Authenticator`. Raises `Refusal` 401 for a credential that is not valid any more, or never was."""
        token = given_token(handler)
        if not is_credential(token):
            return await self.inner.caller(handler)
        attempt = None if self.credentials is None else self.credentials.attempt(token)
        spec = None if attempt is None else self.engine.running_spec(attempt)
        if spec is None:
            raise Refusal(
                401,
                "job_ended",
                "This is the credential of a job's attempt that does not run any more.",
                hint="Each attempt has its own in SPRINGTIDE_TOKEN_FILE; elsewhere use a token of the hub.",
            )
        members = (await self.groups.members()).get(spec.project, ())
        groups = frozenset({spec.project} if spec.user in members else ())
        return Caller(spec.user, groups, job=RunningJob(spec.project, spec.lineage))


def given_token(handler: RequestHandler) -> str:
    """Return the token in the header ``Authorization``, empty if there is none."""
    header = handler.request.headers.get("Authorization", "")
    scheme = next((scheme for scheme in SCHEMES if header[: len(scheme)].lower() == scheme), None)
    return "" if scheme is None else header[len(scheme) :].strip()
