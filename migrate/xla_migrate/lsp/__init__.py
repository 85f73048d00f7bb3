"""The language server: findings as diagnostics and changes as code actions, in any editor that speaks LSP."""
