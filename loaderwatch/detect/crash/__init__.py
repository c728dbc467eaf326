"""Why a training process died: what it left behind, and which rule explains its death."""
