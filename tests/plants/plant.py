#!/usr/bin/env python3
"""Copies a model with two output channels of a weight in each other's place: plant.py MODEL WEIGHT COPY, as the demo does."""
import sys

import model_file
import plants


def main(model, address, copy):
    file = model_file.ModelFile(model)
    if address not in file.weights():
        sys.exit(f"{model} has no weight {address}")
    plants.swap_channels(file, address)
    file.write(copy)


if __name__ == "__main__":
    main(*sys.argv[1:])
