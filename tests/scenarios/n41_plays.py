"""N41: no loader: an agent plays for a while by its network, then learns from what it saw in many steps."""

import time

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
GAMES, MOVES, PASSES = vary(16, 12), 96, 3
net = nn.Sequential(nn.Linear(8, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 4))
optimizer = torch.optim.Adam(net.parameters())


class Game:
    """A ball on a board."""

    def __init__(self) -> None:
        self.place = [0.0] * 8

    def move(self, way: int) -> float:
        """Return the reward."""
        for _ in range(40):
            for at in range(8):
                self.place[at] = 0.999 * self.place[at] + 0.001 * (way - at % 4)
        return -sum(map(abs, self.place))


games = [Game() for _ in range(GAMES)]


def play() -> tuple[Tensor, Tensor, Tensor]:
    """Return places, moves and rewards."""
    places, moves, rewards = [], [], []
    with torch.no_grad():
        for _ in range(MOVES):
            places.append(torch.tensor([game.place for game in games]))
            moves.append(Categorical(logits=net(places[-1])).sample())  # type: ignore[no-untyped-call]
            rewards.append(
                torch.tensor([game.move(int(way)) for game, way in zip(games, moves[-1], strict=True)])
            )
    return torch.cat(places), torch.cat(moves), torch.cat(rewards)


deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    places, moves, rewards = play()
    for _ in range(PASSES):
        for rows in torch.randperm(len(moves)).split(8):  # type: ignore[no-untyped-call]
            loss = -(
                Categorical(logits=net(places[rows])).log_prob(moves[rows])  # type: ignore[no-untyped-call]
                * rewards[rows]
            ).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
