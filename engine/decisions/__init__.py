"""How signals become decisions: the policies, and the named signals of a frame."""
