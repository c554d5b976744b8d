"""Distributional agents: one learner, small algorithms (Section 5.3)."""

from bellman_diffusion.agents.agent import Agent
from bellman_diffusion.agents.config import AgentConfig
from bellman_diffusion.agents.registry import default_config
from bellman_diffusion.agents.train import Training, make_train, train_agents

__all__ = ["Agent", "AgentConfig", "Training", "default_config", "make_train", "train_agents"]
