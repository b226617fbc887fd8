"""Writes the models that ship with the project: `python make_models.py` (torch 2.13, safetensors). Seeded; run again, it
writes the same weights. small_resnet.ts.pt is what scripts/demo traces."""

import torch
from safetensors.torch import save_file
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.downsample(x)
        return self.relu(y)


class SmallResNet(nn.Module):
    """A ResNet of 8 blocks, 8 to 64 channels wide, for 64 x 64 pictures and 10 classes."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        width, layers = 8, []
        for outputs, stride in ((8, 1), (16, 2), (32, 2), (64, 2)):
            layers.append(nn.Sequential(Block(width, outputs, stride), Block(outputs, outputs, 1)))
            width = outputs
        self.layer1, self.layer2, self.layer3, self.layer4 = layers
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def main():
    torch.manual_seed(0)
    model = SmallResNet()
    with torch.no_grad():  # statistics of a few batches, so that eval mode sees ordinary numbers
        model.train()
        for _ in range(8):
            model(torch.randn(16, 3, 64, 64))
    model.eval()
    torch.jit.script(model).save("small_resnet.ts.pt")
    save_file({"x": torch.randn(1, 3, 64, 64)}, "small_resnet.inputs.safetensors")


if __name__ == "__main__":
    main()
