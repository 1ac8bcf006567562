// In place of the theme's file of that name: 1.5 MB that draw ten icons. The theme's font has them, too.
