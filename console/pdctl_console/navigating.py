"""Ways through the console: to a screen, an instance, a log, a request, by key or by name."""

from __future__ import annotations

from textual import work

from pdctl.client.errors import ClientError
from pdctl_console import verbs
from pdctl_console.command import Go
from pdctl_console.operating import OperatingApp
from pdctl_console.screens.dialogs import Text
from pdctl_console.screens.help import help_lines
from pdctl_console.screens.instance import InstanceScreen
from pdctl_console.screens.logs import LogsScreen
from pdctl_console.screens.request import RequestScreen


class NavigatingApp(OperatingApp):
    """The part of the console that leads somewhere."""

    def go_to(self, to: Go) -> None:
        """To what a command line names."""
        match to.where, to.what:
            case "quit", _:
                self.exit()
            case "help", _:
                self.action_help()
            case "keys", _:
                self.open_keys()
            case "instance", id_:
                self.push_screen(InstanceScreen(id_))
            case "logs", id_ if id_:
                self.open_logs(id_)
            case "command", id_:
                self.open_command(id_)
            case "requests", id_ if id_:
                self.open_request(id_)
            case "operations", id_ if id_:
                self.open_operation(id_)
            case mode, _:
                self.go(mode)

    @work(exclusive=True, group="open")
    async def open_keys(self) -> None:
        """Whose API keys the front door takes."""
        try:
            page = await self.client.keys()
        except ClientError as error:
            self.refused(error)
        else:
            await self.push_screen(Text("API keys of the front door", verbs.clients(page)))

    def go(self, mode: str) -> None:
        """To a main screen."""
        self.switch_mode(mode)

    def action_help(self) -> None:
        """The keys of this screen and of the app."""
        if not isinstance(self.screen, Text):
            self.push_screen(Text("Keys", help_lines(self.screen, self)))

    def open_logs(self, instance: str) -> None:
        """Go to an instance's log."""
        self.switch_mode("logs")
        self.call_after_refresh(self._choose_log, instance)

    def _choose_log(self, instance: str) -> None:
        if isinstance(self.screen, LogsScreen):
            self.screen.choose(instance)

    @work(exclusive=True, group="open")
    async def open_request(self, id_: str) -> None:
        """Go to a request's waterfall."""
        try:
            request = await self.client.request(id_)
        except ClientError as error:
            self.refused(error)
        else:
            await self.push_screen(RequestScreen(request))
