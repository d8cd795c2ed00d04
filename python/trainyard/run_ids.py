"""Ids of runs, made where the run is made: a request sent twice is one run."""

import os

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # 32, none alike.

_ADJECTIVES = (
    "able amber bold brave brisk bright calm civil clear clever cool crisp daring deft eager early "
    "easy fair fancy fast fine firm fond frank fresh gentle glad golden good grand great green "
    "happy hardy honest jolly keen kind light lively loyal lucid lucky merry mild modest neat "
    "nimble noble odd plain proud quick quiet rapid ready sharp silver sly steady sunny swift tidy "
    "warm").split()

_ANIMALS = (
    "ant badger bat bear beaver bee bison camel cat crane crow deer dingo dove duck eagle "
    "egret elk falcon ferret finch fox frog gecko goat goose gull hare hawk heron hyena ibex "
    "jay kite koala lark lemur lion lizard lynx magpie mole moose mouse newt otter owl panda "
    "parrot pony puffin quail rabbit raven robin seal shrew sloth stork swan tapir tiger vole "
    "wren").split()


def new_run_id() -> str:
    """``calm-otter-x7k2m9pa``, as the command line makes them."""
    random = os.urandom(10)
    words = (_ADJECTIVES[random[0] % len(_ADJECTIVES)], _ANIMALS[random[1] % len(_ANIMALS)],
             "".join(_ALPHABET[byte % 32] for byte in random[2:]))
    return "-".join(words)
