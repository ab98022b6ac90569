from frazil.cli import main

main()
