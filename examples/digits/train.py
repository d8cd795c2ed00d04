"""Trains a small neural network to read handwritten-looking digits, with nothing but Python.

The digits are made here: ten 5x7 glyphs, drawn into 8x8 pixels at a random place, slanted, smudged and
covered with noise. The network has one hidden layer and learns by stochastic gradient descent.
"""
import argparse
import json
import math
import os
import random
import time

try:
    from trainyard import Run  # There in every run; outside, `pip install ./python`.
except ImportError:
    Run = None

SIDE = 8
PIXELS = SIDE * SIDE
CLASSES = 10
HIDDEN = 32

GLYPHS = """
.###. ..#.. .###. ##### ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#..## #.#.. ....# ...#. .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ....#
.###. ##### ##### .###. ...#. .###. .###. .#... .###. .###.
""".split()


def glyph(digit):
    """The set pixels of a digit, as (row, column)."""
    rows = GLYPHS[digit::CLASSES]
    return [(r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark == "#"]


def draw(digit, chance):
    """One picture of a digit: 64 numbers from 0 to 1."""
    picture = [chance.uniform(0, 0.3) for _ in range(PIXELS)]
    down, right = chance.randrange(2), chance.randrange(1, 3)
    slant = chance.choice((-1, 0, 0, 1))
    for row, column in glyph(digit):
        if chance.random() < 0.05:  # The pen skips.
            continue
        column += right + round(slant * (3 - row) / 4)
        if 0 <= column < SIDE:
            at = (row + down) * SIDE + column
            picture[at] = chance.uniform(0.55, 1)
            if column + 1 < SIDE and chance.random() < 0.1:  # The ink runs.
                picture[at + 1] = max(picture[at + 1], chance.uniform(0.3, 0.7))
    return picture


def make_dataset(size, chance):
    labels = [i % CLASSES for i in range(size)]
    chance.shuffle(labels)
    return [(draw(label, chance), label) for label in labels]


class Network:
    """64 pixels -> 32 hidden units (tanh) -> 10 digits (softmax)."""

    def __init__(self, chance):
        self.w1 = [[chance.gauss(0, 1 / math.sqrt(PIXELS)) for _ in range(PIXELS)] for _ in range(HIDDEN)]
        self.b1 = [0.0] * HIDDEN
        self.w2 = [[chance.gauss(0, 1 / math.sqrt(HIDDEN)) for _ in range(HIDDEN)] for _ in range(CLASSES)]
        self.b2 = [0.0] * CLASSES

    def forward(self, picture):
        hidden = [math.tanh(sum(map(float.__mul__, w, picture)) + b) for w, b in zip(self.w1, self.b1)]
        scores = [sum(map(float.__mul__, w, hidden)) + b for w, b in zip(self.w2, self.b2)]
        top = max(scores)
        powers = [math.exp(s - top) for s in scores]
        total = sum(powers)
        return hidden, [p / total for p in powers]

    def learn(self, picture, label, rate):
        """One step downhill; returns the loss before it."""
        hidden, odds = self.forward(picture)
        loss = -math.log(max(odds[label], 1e-12))
        odds[label] -= 1  # Now the gradient of the loss by the scores.
        back = [0.0] * HIDDEN
        for k, slope in enumerate(odds):
            row = self.w2[k]
            back = [b + slope * w for b, w in zip(back, row)]
            step = rate * slope
            self.w2[k] = [w - step * h for w, h in zip(row, hidden)]
            self.b2[k] -= step
        for j, (b, h) in enumerate(zip(back, hidden)):
            step = rate * b * (1 - h * h)
            self.w1[j] = [w - step * x for w, x in zip(self.w1[j], picture)]
            self.b1[j] -= step
        return loss

    def guess(self, picture):
        _, odds = self.forward(picture)
        return odds.index(max(odds))


def confusion(network, dataset):
    """matrix[truth][guess] -> how often."""
    matrix = [[0] * CLASSES for _ in range(CLASSES)]
    for picture, label in dataset:
        matrix[label][network.guess(picture)] += 1
    return matrix


def accuracy_of(matrix):
    return sum(matrix[k][k] for k in range(CLASSES)) / sum(map(sum, matrix))


def save(name, value):
    os.makedirs("outputs", exist_ok=True)
    with open(os.path.join("outputs", name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def main():
    parser = argparse.ArgumentParser(description="Train a digit classifier.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.03, help="learning rate of the first epoch")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--samples", type=int, default=3000)
    options = parser.parse_args()

    run = Run.get_context() if Run else None
    chance = random.Random(options.seed)
    training = make_dataset(options.samples, chance)
    test = make_dataset(max(CLASSES, options.samples // 4), chance)
    network = Network(chance)
    print(f"digits: {len(training)} to learn from, {len(test)} to test with", flush=True)

    history = []
    matrix = confusion(network, test)
    for epoch in range(1, options.epochs + 1):
        start = time.monotonic()
        chance.shuffle(training)
        rate = options.lr * 0.75 ** (epoch - 1)
        losses = [network.learn(picture, label, rate) for picture, label in training]
        loss = sum(losses) / len(losses)
        matrix = confusion(network, test)
        accuracy = accuracy_of(matrix)
        took = time.monotonic() - start
        if run:
            run.log("loss", loss, step=epoch)
            run.log("accuracy", accuracy, step=epoch)
        history.append({"epoch": epoch, "loss": loss, "accuracy": accuracy, "seconds": took})
        print(f"epoch {epoch}/{options.epochs}  loss {loss:.3f}  accuracy {accuracy:.3f}  {took:.1f} s",
              flush=True)
        save("metrics.json", {"history": history})

    if run:
        run.log_confusion_matrix("confusion", {"schema_type": "confusion_matrix", "schema_version": "v1", "data": {
            "class_labels": [str(k) for k in range(CLASSES)], "matrix": matrix}})
    save("confusion_matrix.json", {"rows": "truth", "columns": "guess", "matrix": matrix})
    save("model.json", {"w1": network.w1, "b1": network.b1, "w2": network.w2, "b2": network.b2})


if __name__ == "__main__":
    main()
