"""A model that says what it is told to: a server of OpenAI's, Anthropic's and Gemini's protocols.

It answers each call of a model with the next turn of a script, and keeps what it was sent.
"""

from .script import Script, ToolCall, Turn
from .server import ModelServer, Received

__all__ = ["ModelServer", "Received", "Script", "ToolCall", "Turn"]
