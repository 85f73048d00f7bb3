from torch import nn


class Criterion(nn.Module):
    """A sum of terms, each chosen by its name."""

    def __init__(self, terms):
        super().__init__()
        self.terms = terms

    def loss_value(self, outputs, targets):
        return nn.functional.mse_loss(outputs, targets.to(outputs))

    def loss_size(self, outputs, targets):
        kept = outputs.dtype
        return (outputs.float().abs().mean() * 0.01).to(kept)

    def get_loss(self, term, outputs, targets):
        losses = {"value": self.loss_value, "size": self.loss_size}
        return losses[term](outputs, targets)

    def forward(self, outputs, targets):
        return sum(self.get_loss(term, outputs, targets) for term in self.terms)
