import torch.nn.functional as F
from torch import nn


class TinyDetector(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.class_embed = nn.Linear(72, num_classes)
        self.bbox_embed = nn.Linear(72, 4)

    def forward(self, images):
        features = self.backbone(images)
        return {"logits": self.class_embed(features), "boxes": self.bbox_embed(features).sigmoid()}


class Criterion(nn.Module):
    def forward(self, outputs, targets):
        return {
            "loss_ce": F.cross_entropy(outputs["logits"], targets["labels"]),
            "loss_bbox": F.l1_loss(outputs["boxes"], targets["boxes"]),
        }
